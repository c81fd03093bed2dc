// cloche-agent and the servers of MCP that a task brings: programs inside, services outside, and what is wrong with either.
import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { Model, providers } from './lib/model.mjs';

const WAIT = { headers: { Prefer: 'wait=60' } };
const call = (tool, args = {}) => [{ tool, args }, { text: 'The tool: {{result}}' }];
const SCRIPT = {
	hello: call('hello', { who: 'you' }),
	fails: call('fails'),
	dies: call('dies'),
	asks: call('asks'),
	huge: call('huge'),
	many: [{ tool: 'hello', args: { who: 'one' } }, { tool: 'hello', args: { who: 'two' } }, { text: 'The tool: {{result}}' }],
	child: call('runTask', { instruction: 'echo of a child', waitSeconds: 30 }),
};

const TOOLS = ['hello', 'fails', 'dies', 'asks', 'huge'].map((name) => ({ name, description: `it ${name}`, inputSchema: { type: 'object', properties: { who: { type: 'string' } } } }));

// Says a word that is no message first, as careless programs do; gives its tools in two pages.
const SERVER = `
const out = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\\n');
const TOOLS = ${JSON.stringify(TOOLS)};
console.log('starting up');
let waits;
const say = (id, text, isError) => out({ id, result: { content: [{ type: 'text', text }, { type: 'image', data: 'x' }], isError } });
const tools = {
  hello: (m) => say(m.id, 'hello ' + m.params.arguments.who + ' in ' + process.cwd() + ' ' + process.env.MARK),
  fails: (m) => say(m.id, 'it cannot be done', true),
  dies: () => process.exit(3),
  asks: (m) => { waits = m.id; out({ id: 'p', method: 'ping' }); out({ id: 's', method: 'sampling/createMessage', params: {} }); },
  huge: () => process.stdout.write('x'.repeat(9 * 1024 * 1024) + '\\n'),
};
let answers = [];
const ways = {
  initialize: (m) => out({ id: m.id, result: { protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } } }),
  'tools/list': (m) => out({ id: m.id, result: m.params.cursor ? { tools: TOOLS.slice(2) } : { tools: TOOLS.slice(0, 2), nextCursor: 'more' } }),
  'tools/call': (m) => tools[m.params.name](m),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const m = JSON.parse(line);
  if (m.method) return ways[m.method]?.(m);
  answers.push(m.id + ' ' + (m.error ? m.error.code : 'ok'));
  if (answers.length === 2) say(waits, answers.join(', '));
});
`;

describe('cloche-agent and servers of MCP', () => {
	let model, cloche, server, isStream = false;
	const seen = [];

	const run = async (script, mcpServers, more = {}) =>
		(await cloche.get('POST', '/tasks/run', { instruction: 'go', agent: 'cloche-agent', environment: 'none', model: script, mcpServers, inputs: [{ path: 'server.js', content: SERVER }], ...more }, WAIT)).task;
	const inside = { plat: { command: 'node', args: ['server.js'], env: { MARK: 'marked' } } };

	before(async () => {
		server = http.createServer(async (request, response) => {
			const parts = [];
			for await (const part of request) parts.push(part);
			const m = JSON.parse(Buffer.concat(parts));
			seen.push({ method: m.method, session: request.headers['mcp-session-id'], version: request.headers['mcp-protocol-version'], key: request.headers['x-key'] });
			if (m.id === undefined) return response.writeHead(202).end();
			const results = {
				initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'y', version: '1' } },
				'tools/list': { tools: TOOLS },
				'tools/call': { content: [{ type: 'text', text: `hello ${m.params.arguments?.who} from outside` }] },
			};
			const answer = JSON.stringify({ jsonrpc: '2.0', id: m.id, result: results[m.method] });
			const headers = m.method === 'initialize' ? { 'mcp-session-id': 'a-session' } : {};
			response.writeHead(200, { ...headers, 'content-type': isStream ? 'text/event-stream; charset=utf-8' : 'application/json' });
			response.end(isStream ? `: ping\n\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\nevent: message\ndata: ${answer}\n\n` : answer);
		});
		server.listen(0, '127.0.0.1');
		await once(server, 'listening');
		model = await Model.start({ script: SCRIPT });
		cloche = new Daemon({ env: { CLOCHE_TEST_MCP_KEY: 'a-real-key' } });
		cloche.configure(`${providers(model.url, 'default_model = "hello"\n')}
[services.search]
upstream = "http://127.0.0.1:${server.address().port}"
secret = "env:CLOCHE_TEST_MCP_KEY"
headers = ["X-Key: {secret}"]
`);
		await cloche.serve();
	});
	after(async () => {
		await cloche.discard();
		await model.stop();
		server.close();
	});

	test('a program inside gives tools to its model', async () => {
		const task = await run('hello', inside);
		assert.equal(task.status, 'completed', JSON.stringify(task));
		assert.match(task.stdout, /The tool: hello you in \/workspace marked\n\[a block of type image that I cannot read\]/);
		const { tools } = (await model.log()).at(-1);
		assert.deepEqual(tools.filter((name) => name.startsWith('plat_')), TOOLS.map((tool) => `plat_${tool.name}`));
		assert.ok(tools.includes('run_shell'));
		const events = (await cloche.get('GET', `/tasks/${task.id}/events?limit=1000`)).items.map((event) => event.data.update);
		assert.ok(events.some((update) => update?.sessionUpdate === 'tool_call' && update.title === 'plat_hello'));
		assert.match((await run('many', inside)).stdout, /hello two/);
	});

	test('a service outside does, too, and its key stays there', async () => {
		for (isStream of [false, true]) {
			seen.length = 0;
			const task = await run('hello', { far: { url: 'http://search.cloche.internal/mcp' } });
			assert.equal(task.status, 'completed', JSON.stringify(task));
			assert.match(task.stdout, /The tool: hello you from outside/);
			assert.deepEqual(seen.map((one) => one.method), ['initialize', 'notifications/initialized', 'tools/list', 'tools/call']);
			assert.deepEqual(seen.map((one) => one.session), [undefined, 'a-session', 'a-session', 'a-session']);
			assert.ok(seen.every((one) => one.version === '2025-06-18' && one.key === 'a-real-key'));
		}
	});

	test('the platform itself is one', async () => {
		const task = await run('child', { cloche: { command: 'cloche', args: ['mcp'] } });
		assert.match(task.stdout, /The tool: [^]*of a child/, JSON.stringify(task));
	});

	test('what a server does wrong is an answer for the model, and no end', async () => {
		assert.match((await run('fails', inside)).stdout, /The tool: it cannot be done/);
		assert.match((await run('asks', inside)).stdout, /The tool: p ok, s -32601/);
		assert.match((await run('dies', inside)).stdout, /The tool: error: plat has ended/);
		assert.match((await run('huge', inside)).stdout, /The tool: error: plat says too much in one line/);
	});

	test('one that cannot be used ends the run with its name and what to do', async () => {
		for (const [mcpServers, pattern] of [
			[{ gone: { command: 'no-such-program' } }, /gone: there is no program 'no-such-program'/],
			[{ quits: { command: 'true' } }, /quits has ended/],
			[{ tls: { url: 'https://example.org/mcp' } }, /this program has no TLS; make a service/],
			[{ far: { url: 'http://example.org/mcp' } }, /does not look up names; make a service/],
			[{ none: { url: 'http://127.0.0.1:9/mcp' } }, /connect to 127\.0\.0\.1/],
			[{ api: { url: 'http://nobody.cloche.internal/mcp' } }, /api answered status 40\d/],
		]) {
			const task = await run('hello', mcpServers);
			assert.deepEqual([task.status, task.endReason], ['failed', 'agent_error'], JSON.stringify(task));
			assert.match(task.run.detail, pattern);
		}
	});
});
