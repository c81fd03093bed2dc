// Whether finished tasks slow down who looks: lists, one page further, and status, with few and
// with many of them. The rows are written by tests/bench/fill.c, as the daemon writes them.
// Usage: CLOCHE_BUILD=build node tests/bench/finished.mjs [FEW] [MANY]
import http from 'node:http';
import path from 'node:path';

import { build, Daemon, run } from '../integration/lib.mjs';

const [few, many] = [100, 10000].map((otherwise, i) => Number(process.argv[i + 2] ?? otherwise));
const GOAL = 1.2;
const ROUNDS = 300;
// what a busy neighbour costs is in the other samples
const quarter = (list) => list.toSorted((a, b) => a - b)[list.length >> 2];

const daemons = [];
const agent = new http.Agent({ keepAlive: true });
const ask = (daemon, route) =>
	new Promise((resolve, reject) => {
		http.get({ socketPath: daemon.socket, agent, path: `/api/v1${route}` }, (response) => {
			let text = '';
			response.on('data', (part) => (text += part));
			response.on('end', () => (response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))));
		}).on('error', reject);
	});

async function withFinished(count) {
	const daemon = await Daemon.start();
	daemons.push(daemon);
	await daemon.ok(['stop']);
	const filled = await run(path.join(build, 'tests/bench/fill'), [path.join(daemon.state, 'store/cloche.db'), String(count)]);
	if (filled.code !== 0) throw new Error(filled.stderr);
	await daemon.serve();
	const { items, nextCursor } = await ask(daemon, '/tasks?limit=20');
	return { daemon, routes: { list: '/tasks?limit=20', 'next page': `/tasks?limit=20&cursor=${nextCursor}`, 'the completed': '/tasks?limit=20&state=completed', 'the running': '/tasks?limit=20&state=running', sessions: '/sessions?limit=20', status: `/tasks/${items[0].id}` } };
}

try {
	const [a, b] = [await withFinished(few), await withFinished(many)];
	for (const name of Object.keys(a.routes)) {
		const times = [[], []];
		// in turns: whatever else the machine does hits both
		for (let i = 0; i < ROUNDS; i++) {
			for (const [at, { daemon, routes }] of [a, b].entries()) {
				const began = performance.now();
				await ask(daemon, routes[name]);
				if (i >= 10) times[at].push(performance.now() - began);
			}
		}
		const [first, second] = times.map(quarter);
		console.log(`${name.padEnd(14)} ${first.toFixed(3)} ms with ${few} finished, ${second.toFixed(3)} ms with ${many}: ${(second / first).toFixed(2)} times, goal ≤ ${GOAL}: ${second / first <= GOAL ? 'holds' : 'misses'}`);
	}
} finally {
	agent.destroy();
	for (const daemon of daemons) await daemon.stop();
}
