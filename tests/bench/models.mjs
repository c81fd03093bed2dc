// What the model gateway costs, and how soon an agent asks its model. In turns, in one run: a stream of the scripted model read directly, and
// through the gateway. Each chunk says when it was sent, so what it took is known on both ways. Then tasks: from POST to the first
// request that comes to the provider, by cloche-agent and, where its packages are (tests/agents/pi), by Pi.
// Usage: CLOCHE_BUILD=build node tests/bench/models.mjs [STREAMS] [TASKS]
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { once } from 'node:events';

import { Daemon, sleep } from '../integration/lib.mjs';
import { Model } from '../integration/lib/model.mjs';
import { repo } from '../integration/lib/paths.mjs';

const [streams, tasks] = [60, 40].map((otherwise, i) => Number(process.argv[i + 2] ?? otherwise));
const CHUNKS = 100;
const at = (list, part) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))];
const us = (value) => `${(value / 1000).toFixed(0)} µs`;
const ms = (value) => `${(value / 1e6).toFixed(2)} ms`;

const model = await Model.start({ script: { stream: [{ text: 'x'.repeat(24 * CHUNKS), delayMs: 2, stamps: true }] } });

// A provider in this process: it knows when it was asked on the clock that the question was sent by.
const asked = [];
const own = http.createServer(async (request, response) => {
	const now = process.hrtime.bigint();
	for await (const part of request) void part;
	if (request.url.endsWith('/chat/completions')) asked.push(now);
	response.writeHead(200, { 'content-type': 'text/event-stream' });
	const chunk = (delta, finish) => `data: ${JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })}\n\n`;
	response.end(chunk({ role: 'assistant', content: 'done' }, null) + chunk({}, 'stop') + 'data: [DONE]\n\n');
});
own.listen(0, '127.0.0.1');
await once(own, 'listening');

const provider = (name, url, more) => `[llm.providers.${name}]\nkind = "openai"\nbase_url = "${url}"\n${more}\n`;
const daemon = await Daemon.start({
	config: `[sandboxes.default]\npool = 8\n[server]\nlisten = "none"\n${provider('scripted', model.url, 'models = ["stream"]')}${provider('own', `http://127.0.0.1:${own.address().port}`, 'default_model = "m"\nmodels = ["m"]')}`,
});
process.once('SIGTERM', () => daemon.stop().finally(() => process.exit(143)));

const ways = {
	direct: { agent: new http.Agent({ keepAlive: true }), host: '127.0.0.1', port: model.port, path: '/v1/chat/completions', chunks: [], first: [] },
	gateway: { agent: new http.Agent({ keepAlive: true }), socketPath: daemon.socket, path: '/api/v1/llm/v1/chat/completions', chunks: [], first: [] },
};

const read = ({ chunks, first, ...where }) =>
	new Promise((resolve, reject) => {
		const begun = process.hrtime.bigint();
		let isFirst = true;
		const request = http.request({ ...where, method: 'POST', headers: { 'content-type': 'application/json' } }, (response) => {
			response.on('data', (part) => {
				const now = process.hrtime.bigint();
				if (isFirst) first.push(Number(now - begun));
				isFirst = false;
				for (const [, stamp] of String(part).matchAll(/^: (\d+)$/gm)) chunks.push(Number(now - BigInt(stamp)));
			});
			response.on('end', resolve);
		});
		request.on('error', reject);
		request.end(JSON.stringify({ model: 'stream', stream: true, messages: [{ role: 'user', content: 'go' }] }));
	});

const start = async (agent, more = {}) => {
	asked.length = 0;
	const begun = process.hrtime.bigint();
	const { task } = await daemon.get('POST', '/tasks/run', { agent, instruction: 'go', environment: 'none', ...more }, { headers: { prefer: 'wait=120' } });
	if (task.status !== 'completed') throw new Error(JSON.stringify(task));
	return Number(asked[0] - begun);
};

try {
	for (let i = 0; i < 4; i++) for (const way of Object.values(ways)) await read(way);
	for (const way of Object.values(ways)) way.chunks.length = way.first.length = 0;
	for (let i = 0; i < streams; i++) for (const way of Object.values(ways)) await read(way);
	for (const part of [0.5, 0.99]) {
		const [direct, gateway] = Object.values(ways).map((way) => ({ chunk: at(way.chunks, part), first: at(way.first, part) }));
		console.log(`p${part * 100}: a chunk ${us(direct.chunk)} directly, ${us(gateway.chunk)} by the gateway: ${us(gateway.chunk - direct.chunk)} more; first token ${ms(direct.first)}, ${ms(gateway.first)}: ${ms(gateway.first - direct.first)} more`);
	}
	await sleep(5000); // the pool fills
	const took = [];
	for (let i = 0; i < tasks; i++) {
		took.push(await start('cloche-agent'));
		await sleep(300); // what it used is replaced
	}
	console.log(`cloche-agent, POST to its first request: p50 ${ms(at(took, 0.5))}  p99 ${ms(at(took, 0.99))}`);
	const modules = path.join(repo, 'tests/agents/pi/node_modules');
	if (fs.existsSync(path.join(modules, '.bin'))) {
		await daemon.ok(['agent', 'install', 'pi', '--from', path.dirname(fs.realpathSync(modules))], { ms: 300000 });
		const theirs = [];
		for (let i = 0; i < 5; i++) theirs.push(await start('pi'));
		console.log(`pi, the same: p50 ${ms(at(theirs, 0.5))}`);
	}
} finally {
	await daemon.discard?.();
	await model.stop();
	own.close();
	for (const way of Object.values(ways)) way.agent.destroy();
}
