// Tasks through the whole durable path: how many a second, how long one takes, and whether a store
// full of finished ones slows anybody down.
// Usage: CLOCHE_BUILD=build node tests/bench/tasks.mjs [SECONDS] [IN_FLIGHT] [FINISHED]
import http from 'node:http';

import { Daemon, sleep } from '../integration/lib.mjs';

const [seconds, flight, finished] = [10, 100, 2000].map((otherwise, i) => Number(process.argv[i + 2] ?? otherwise));
const at = (list, part) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))];
const ms = (list) => `p50 ${at(list, 0.5).toFixed(1)} ms  p99 ${at(list, 0.99).toFixed(1)} ms`;

const daemon = await Daemon.start({ config: '[sandboxes.default]\npool = 128\n[server]\nlisten = "none"\n[tasks]\nteam_concurrency = 256\n' });
const agent = new http.Agent({ keepAlive: true, maxSockets: flight });
const ask = (method, path, body, headers = {}) =>
	new Promise((resolve, reject) => {
		const request = http.request({ socketPath: daemon.socket, agent, method, path: `/api/v1${path}`, headers: { 'content-type': 'application/json', ...headers } }, (response) => {
			let text = '';
			response.on('data', (part) => (text += part));
			response.on('end', () => resolve(JSON.parse(text)));
		});
		request.on('error', reject);
		request.end(body && JSON.stringify(body));
	});
const timed = async (list, what) => {
	const begun = performance.now();
	const answer = await what();
	list.push(performance.now() - begun);
	return answer;
};
const run = () => ask('POST', '/tasks/run', { instruction: 'true' }, { prefer: 'wait=60' });
const isGood = ({ task }) => task?.endReason === 'finished';

try {
	await sleep(8000); // the pool fills
	const one = [];
	for (let i = 0; i < 30; i++) {
		await timed(one, run);
		await sleep(80);
	}
	console.log(`one after another, until its end is told   ${ms(one)}`);

	const looks = async () => {
		const [list, status] = [[], []];
		const { items } = await ask('GET', '/tasks?limit=20');
		for (let i = 0; i < 200; i++) {
			await timed(list, () => ask('GET', '/tasks?limit=20'));
			await timed(status, () => ask('GET', `/tasks/${items[0].id}`));
		}
		return { list: at(list, 0.5), status: at(status, 0.5) };
	};
	const few = await looks();

	const all = [];
	let lost = 0;
	const began = performance.now();
	const end = began + seconds * 1000;
	const loop = async (more) => {
		while (more()) if (!isGood(await timed(all, run))) lost++;
	};
	await Promise.all(Array.from({ length: flight }, () => loop(() => performance.now() < end)));
	console.log(`${flight} in flight for ${seconds} s   ${(all.length / ((performance.now() - began) / 1000)).toFixed(0)} tasks a second, ${lost} lost   ${ms(all)}`);

	await Promise.all(Array.from({ length: 32 }, () => loop(() => all.length < finished)));
	const many = await looks();
	console.log(`list and status with ${all.length} finished against ${one.length}: ${(many.list / few.list).toFixed(2)} and ${(many.status / few.status).toFixed(2)} times`);
} finally {
	await daemon.stop();
}
