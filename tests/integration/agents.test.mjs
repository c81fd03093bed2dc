// Agents that speak the Agent Client Protocol: ours against a scripted model, and one that misbehaves in every way.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { Daemon, isAlive, until } from './lib.mjs';
import { Model, providers } from './lib/model.mjs';
import { tar } from './lib/tar.mjs';

const WAIT = { headers: { Prefer: 'wait=60' } };
const KEY = `sk-real-${'Zq7'.repeat(9)}`;

const SCRIPT = {
	default: [
		{ shell: 'echo scripted > proof.txt; cat proof.txt', usage: { in: 1000, out: 30, cached: 200 } },
		{ text: 'Done: saw {{result}}', usage: { in: 1200, out: 40, cached: 900 } },
	],
	talk: [{ text: 'one' }, { text: 'two' }],
	tools: [
		{ tool: 'write_file', args: { path: 'd/a.txt', content: 'alpha\nbeta\n' } },
		{ tool: 'edit_file', args: { path: 'd/a.txt', old: 'beta', new: 'gamma' } },
		{ tool: 'search_files', args: { text: 'gamma' } },
		{ tool: 'read_file', args: { path: 'd/a.txt' } },
		{ tool: 'no_such_tool', args: {} },
		{ text: 'ended' },
	],
	slow: [{ text: 'word '.repeat(200), delayMs: 300 }],
	steady: [{ text: 'a line of words that takes its time', delayMs: 350 }],
	flaky: [{ error: 429, times: 1 }, { error: 500, times: 1 }, { text: 'at last' }],
	broken: [{ text: 'this text never comes to its end', cut: true }],
};

// An agent in a few lines: `what` is the instruction, and says how it misbehaves.
const FAKE = `
const out = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\\n');
const update = (u) => out({ method: 'session/update', params: { sessionId: 's1', update: u } });
const say = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
let prompt, servers, offers, last = 1000;
const open = new Map();
const call = (method, params) => new Promise((done) => { open.set(++last, done); out({ id: last, method, params: { sessionId: 's1', ...params } }); });
const ways = {
  chat() { say('hel'); say('lo'); out({ id: prompt, result: { stopReason: 'end_turn' } }); },
  nonsense() { console.log('this is no JSON'); },
  half() { process.stdout.write('{"jsonrpc":"2.0","id":'); process.exit(0); },
  huge() { const x = 'x'.repeat(1 << 20); const more = () => process.stdout.write(x, more); more(); },
  gentle() { say('begun'); ways.cancelled = true; setInterval(() => {}, 1000); },
  silent() { setInterval(() => {}, 1000); },
  servers() { say(JSON.stringify(servers) + process.env.EFFORT); out({ id: prompt, result: { stopReason: 'end_turn' } }); },
  async helped() {
    const file = '/workspace/d/made.txt';
    const lines = [];
    lines.push(JSON.stringify(offers));
    lines.push(JSON.stringify(await call('fs/write_text_file', { path: file, content: 'one\\ntwo\\nthree\\n' })));
    lines.push(JSON.stringify(await call('fs/read_text_file', { path: file, line: 2, limit: 1 })));
    lines.push(String((await call('fs/read_text_file', { path: '/workspace/none' })).code));
    lines.push(String((await call('fs/read_text_file', { path: 'made.txt' })).code));
    lines.push(JSON.stringify((await call('fs/read_text_file', { path: '/etc/shadow' })).code));
    lines.push(JSON.stringify(require('fs').readFileSync(file, 'utf8')), String(require('fs').statSync(file).uid === process.getuid()));
    const { terminalId } = await call('terminal/create', { command: 'sh', args: ['-c', 'echo $WORD; pwd; echo bad >&2; exit 3'], env: [{ name: 'WORD', value: 'up' }], cwd: '/tmp' });
    lines.push(JSON.stringify(await call('terminal/wait_for_exit', { terminalId })));
    const shown = await call('terminal/output', { terminalId });
    lines.push(shown.output.split('\\n').sort().join(' ').trim() + ' ' + shown.truncated + ' ' + shown.exitStatus.exitCode);
    const long = (await call('terminal/create', { command: 'sh', args: ['-c', 'yes | head -c 100000; sleep 1000'], outputByteLimit: 10 })).terminalId;
    while (!(await call('terminal/output', { terminalId: long })).truncated);
    lines.push(JSON.stringify(await call('terminal/output', { terminalId: long })));
    lines.push(JSON.stringify(await call('terminal/kill', { terminalId: long })), (await call('terminal/wait_for_exit', { terminalId: long })).signal);
    lines.push(JSON.stringify(await call('terminal/release', { terminalId: long })));
    lines.push(String((await call('terminal/output', { terminalId: 'ex_nobody' })).code), String((await call('terminal/create', {})).code), String((await call('of/another', {})).code));
    say(lines.join('|')); out({ id: prompt, result: { stopReason: 'end_turn' } });
  },
  async lasting() {
    const { terminalId } = await call('terminal/create', { command: 'sh', args: ['-c', 'echo x >> /tmp/times; sleep 2; echo slept'] });
    say('begun ');
    const end = await call('terminal/wait_for_exit', { terminalId });
    say((await call('terminal/output', { terminalId })).output.trim() + end.exitCode + require('fs').readFileSync('/tmp/times', 'utf8').trim()); out({ id: prompt, result: { stopReason: 'end_turn' } });
  },
  die() { process.exit(9); },
  refuse() { out({ id: prompt, result: { stopReason: 'refusal' } }); },
  max() { out({ id: prompt, result: { stopReason: 'max_turn_requests' } }); },
  odd() { out({ id: prompt, result: { stopReason: 'whatever' } }); },
  fail() { out({ id: prompt, error: { code: -32603, message: 'no model', data: { details: 'for you' } } }); },
  ask() { out({ id: 77, method: 'session/request_permission', params: { sessionId: 's1', toolCall: { toolCallId: 't', title: 'rm -rf' },
    options: [{ optionId: 'no', kind: 'reject_once', name: 'n' }, { optionId: 'yes', kind: 'allow_once', name: 'y' }] } }); },
  secret() { say('the tok'); setTimeout(() => { say('en is ' + process.env.MY_TOKEN.slice(0, 5)); setTimeout(() => { say(process.env.MY_TOKEN.slice(5) + '!');
    update({ sessionUpdate: 'tool_call', toolCallId: 'x', title: process.env.MY_TOKEN }); out({ id: prompt, result: { stopReason: 'end_turn' } }); }, 100); }, 100); },
  many() { for (let i = 0; i < 30000; i++) update({ sessionUpdate: 'plan', entries: [{ content: 'step ' + i }] }); ways.chat(); },
  noise() { const x = '{"jsonrpc":"2.0","method":"of/no/interest"}\\n'.repeat(20000); const more = () => process.stdout.write(x, more); more(); },
  wide() { const list = Array(60).fill('y'.repeat(7000)), part = { ['n'.repeat(100000)]: 1, [process.env.MY_TOKEN]: 2, list, again: list };
    update({ sessionUpdate: 'plan', entries: Array(4).fill(part) }); ways.chat(); },
  begs() { const title = Array(60).fill('z'.repeat(1000));
    for (let i = 0; i < 700; i++) out({ id: 78, method: 'session/request_permission', params: { sessionId: 's1', toolCall: { title }, options: [] } });
    ways.chat(); },
  tells() { out({ id: prompt, error: { code: -32603, message: 'cannot use ' + process.env.MY_TOKEN } }); },
  wait() { say('begun '); setTimeout(() => { say('and done'); out({ id: prompt, result: { stopReason: 'end_turn' } }); }, 2000); },
};
const handle = (m) => {
  if (open.has(m.id) && !m.method) return open.get(m.id)(m.result ?? m.error);
  if (m.method === 'initialize') offers = m.params.clientCapabilities;
  if (m.method === 'initialize') return out({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'fake', version: '1' }, agentCapabilities: { mcpCapabilities: { http: !process.env.NO_HTTP } } } });
  if (m.method === 'session/new') servers = m.params.mcpServers;
  if (m.method === 'session/new') return out({ id: m.id, result: { sessionId: 's1' } });
  if (m.method === 'session/prompt') { prompt = m.id; return ways[m.params.prompt[0].text](); }
  if (m.method === 'session/cancel' && ways.cancelled) return out({ id: prompt, result: { stopReason: 'cancelled' } });
  if (m.id === 77) { say('option ' + (m.result?.outcome?.optionId ?? 'none')); out({ id: prompt, result: { stopReason: 'end_turn' } }); }
};
let rest = '';
process.stdin.on('data', (part) => { rest += part; let at; while ((at = rest.indexOf('\\n')) >= 0) { const line = rest.slice(0, at); rest = rest.slice(at + 1); handle(JSON.parse(line)); } });
process.stdin.on('end', () => process.exit(0));
`;

/** A registry of npm that has one package, whose program and the words it says can change. */
async function registry() {
	const version = '1.18.33';
	const state = { word: 'first' };
	const server = http.createServer((request, response) => {
		const program = `#!/usr/bin/env node\n${FAKE.replace("say('hel'); say('lo');", `say('opencode ' + process.argv[2] + ' ${state.word}');`)}`;
		const bytes = gzipSync(
			tar([
				{ name: 'package/package.json', content: JSON.stringify({ name: 'opencode-ai', version, bin: { opencode: 'run.js' } }) },
				{ name: 'package/run.js', content: program, mode: 0o755 },
			]),
		);
		if (request.url.endsWith('.tgz')) return response.end(bytes);
		if (request.url !== '/opencode-ai') return response.writeHead(404).end('{}');
		const dist = { tarball: `http://registry.cloche.internal/${state.word}.tgz`, integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}` };
		response.setHeader('content-type', 'application/json');
		response.end(JSON.stringify({ name: 'opencode-ai', 'dist-tags': { latest: version }, versions: { [version]: { name: 'opencode-ai', version, bin: { opencode: 'run.js' }, dist } } }));
	});
	await new Promise((done) => server.listen(0, '127.0.0.1', done));
	return Object.assign(state, { port: server.address().port, stop: () => server.close() });
}

async function run(cloche, body, options = WAIT) {
	const answer = await cloche.api('POST', '/tasks/run', body, options);
	assert.ok(answer.status < 300, `${answer.status} ${answer.bytes}`);
	return answer.body.task;
}

const updates = async (cloche, id) => (await cloche.get('GET', `/tasks/${id}/events?limit=1000`)).items.filter((event) => event.kind === 'agent.update').map((event) => event.data.update);

describe('agents', () => {
	let model, cloche, packages;

	before(async () => {
		packages = await registry();
		model = await Model.start({ script: SCRIPT, key: KEY });
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY } });
		cloche.configure(`
[sandboxes.default]
pool = 2
env = { npm_config_registry = "http://registry.cloche.internal/" }
[services.registry]
upstream = "http://127.0.0.1:${packages.port}"
${providers(model.url, 'secret = "env:CLOCHE_TEST_MODEL_KEY"\ndefault_model = "default"\n')}
[agents.fake]
command = ["node", "-e", ${JSON.stringify(FAKE)}]
env = ["EFFORT={effort}"]
[agents.offline]
command = ["node", "-e", ${JSON.stringify(FAKE)}]
env = ["NO_HTTP=1"]
[agents.foreign]
command = ["node", "-e", ${JSON.stringify(FAKE.replace("version: '1'", `version: '${'1'.repeat(11)}é'`))}]
[agents.missing]
command = ["no-such-agent"]
`);
		await cloche.serve();
	});
	after(async () => {
		await cloche.discard();
		await model.stop();
		packages.stop();
	});

	test('ours does a task of two steps without a network', async () => {
		const task = await run(cloche, { instruction: 'write the proof', agent: 'cloche-agent' });
		assert.deepEqual([task.status, task.endReason, task.exitCode], ['completed', 'finished', 0], JSON.stringify(task.run));
		assert.equal(task.stdout, 'Done: saw scripted\n');
		assert.deepEqual([task.inputTokens, task.outputTokens], [2200, 70]);
		const seen = await updates(cloche, task.id);
		assert.deepEqual(
			seen.map((update) => [update.sessionUpdate, update.status].join(' ').trim()),
			['tool_call in_progress', 'tool_call_update completed', 'agent_message_chunk'],
		);
		assert.match(seen[0].title, /^echo scripted/);
		const turns = (await cloche.get('GET', `/tasks/${task.id}/events?kind=agent.turn`)).items;
		assert.deepEqual(turns.map((turn) => turn.data.status), ['started', 'ended']);
		assert.equal(turns[1].data.stopReason, 'end_turn');
		assert.match(turns[0].data.agent, /^cloche-agent /);
	});

	test('ours has its tools, and says what there is not', async () => {
		const task = await run(cloche, { instruction: 'go', model: 'tools', agent: 'cloche-agent' });
		assert.equal(task.stdout, 'No no_such_tool tool was offered.\n', JSON.stringify(task.run));
		const results = (await updates(cloche, task.id)).filter((update) => update.sessionUpdate === 'tool_call_update');
		assert.deepEqual(results.map((update) => update.status), Array(4).fill('completed'));
		assert.match(results[2].content[0].content.text, /d\/a\.txt:2:gamma/);
		assert.match(results[3].content[0].content.text, /1 {2}alpha\n +2 {2}gamma/);
	});

	test('ours asks again when the model stumbles, and gives up with a reason', async () => {
		assert.equal((await run(cloche, { instruction: 'go', model: 'flaky', agent: 'cloche-agent' })).stdout, 'at last\n');
		const task = await run(cloche, { instruction: 'go', model: 'broken', agent: 'cloche-agent' });
		assert.deepEqual([task.status, task.endReason], ['failed', 'agent_error']);
		assert.match(task.run.detail, /broke off|no whole answer|no provider answered/);
	});

	test('ours stops when it is told to', async () => {
		const { id } = await run(cloche, { instruction: 'go', model: 'slow', agent: 'cloche-agent' }, {});
		await until(async () => (await updates(cloche, id)).length > 0, 'it speaks');
		const { task } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
		assert.deepEqual([task.status, task.endReason], ['cancelled', 'stopped']);
		assert.match(task.stdout, /^word word/);
	});

	const ends = [
		['chat', 'completed', 'finished', null],
		['nonsense', 'failed', 'agent_error', /not JSON/],
		['half', 'failed', 'agent_error', /ended with status 0 before it answered/],
		['huge', 'failed', 'agent_error', /too long/],
		['die', 'failed', 'agent_error', /status 9 before it answered/],
		['refuse', 'failed', 'refusal', /refused/],
		['max', 'failed', 'agent_error', /requests/],
		['odd', 'failed', 'agent_error', /known reason/],
		['fail', 'failed', 'agent_error', /no model: for you/],
	];
	for (const [way, status, reason, detail] of ends)
		test(`one that does "${way}" ends with a reason`, async () => {
			const task = await run(cloche, { instruction: way, agent: 'fake' });
			assert.deepEqual([task.status, task.endReason], [status, reason], JSON.stringify(task.run));
			if (detail) assert.match(task.run.detail, detail);
			if (way === 'chat') assert.equal(task.stdout, 'hello\n');
		});

	test('one with a version in foreign letters is shown as it is', async () => {
		const task = await run(cloche, { instruction: 'chat', agent: 'foreign' });
		assert.deepEqual([task.status, task.stdout], ['completed', 'hello\n'], JSON.stringify(task.run));
		const [started] = (await cloche.get('GET', `/tasks/${task.id}/events?kind=agent.turn`)).items;
		assert.equal(started.data.agent, `fake ${'1'.repeat(11)}é`);
	});

	test('one that never ends its noise does not hold the daemon', async () => {
		const { id } = await run(cloche, { instruction: 'noise', agent: 'fake' }, {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}/events?kind=agent.turn`)).items.length > 0, 'it is asked');
		await new Promise((done) => setTimeout(done, 1000));
		const { task } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
		assert.deepEqual([task.status, task.endReason], ['cancelled', 'stopped'], JSON.stringify(task.run));
	});

	test('a stop cancels the turn first, and kills one that does not hear', async () => {
		for (const [instruction, heard] of [['gentle', true], ['silent', false]]) {
			const { id } = await run(cloche, { instruction, agent: 'fake' }, {});
			await until(async () => (await cloche.get('GET', `/tasks/${id}/events?kind=agent.turn`)).items.length > 0, 'it is asked');
			const { task } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
			assert.deepEqual([task.status, task.endReason], ['cancelled', 'stopped'], JSON.stringify(task.run));
			const turns = (await cloche.get('GET', `/tasks/${id}/events?kind=agent.turn`)).items.map((turn) => turn.data.stopReason);
			assert.deepEqual(turns, heard ? [undefined, 'cancelled'] : [undefined]);
		}
	});

	test('one that is silent ends in time', async () => {
		const task = await run(cloche, { instruction: 'silent', agent: 'fake', idleTimeout: 1500 });
		assert.deepEqual([task.status, task.endReason], ['failed', 'idle']);
		const none = await run(cloche, { instruction: 'x', agent: 'missing' });
		assert.deepEqual([none.status, none.endReason], ['failed', 'start_failed']);
		assert.match(none.run.detail, /no-such-agent/);
	});

	test('permissions are answered by policy', async () => {
		assert.equal((await run(cloche, { instruction: 'ask', agent: 'fake' })).stdout, 'option yes\n');
		const task = await run(cloche, { instruction: 'ask', agent: 'fake', permissions: 'deny' });
		assert.equal(task.stdout, 'option no\n');
		const [asked] = (await cloche.get('GET', `/tasks/${task.id}/events?kind=agent.permission`)).items;
		assert.deepEqual([asked.data.toolCall.title, asked.data.verdict], ['rm -rf', 'deny']);
	});

	test('a person decides where the policy says so', async () => {
		for (const [verb, wanted] of [['allow', 'yes'], ['deny', 'no']]) {
			const { id } = await run(cloche, { instruction: 'ask', agent: 'fake', permissions: 'ask' }, {});
			let waiting;
			await until(async () => (([waiting] = await cloche.json(['approval', 'list'])), waiting), 'somebody is asked');
			assert.deepEqual([waiting.kind, waiting.tool, waiting.program], ['permission', 'rm -rf', 'fake']);
			if (verb === 'allow') assert.notEqual((await cloche.cli(['approval', 'allow', waiting.id, '--for', 'sandbox'])).code, 0);
			await cloche.ok(['approval', verb, waiting.id]);
			const { task } = await cloche.get('GET', `/tasks/${id}`, undefined, WAIT);
			assert.deepEqual([task.status, task.stdout], ['completed', `option ${wanted}\n`], JSON.stringify(task.run));
			const [asked] = (await cloche.get('GET', `/tasks/${id}/events?kind=agent.permission`)).items;
			assert.equal(asked.data.verdict, verb);
		}
		const { id } = await run(cloche, { instruction: 'ask', agent: 'fake', permissions: 'ask' }, {});
		await until(async () => (await cloche.json(['approval', 'list'])).length === 1, 'somebody is asked');
		const { task } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
		assert.equal(task.endReason, 'stopped');
		assert.deepEqual(await cloche.json(['approval', 'list']), []);
	});

	test('files and terminals are served inside, as the user of the sandbox', async () => {
		const task = await run(cloche, { instruction: 'helped', agent: 'fake' });
		assert.equal(task.status, 'completed', JSON.stringify(task.run));
		assert.deepEqual(task.stdout.trim().split('|'), [
			'{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}', '{}', '{"content":"two\\n"}', '-32002', '-32602', '-32002', '"one\\ntwo\\nthree\\n"', 'true',
			'{"exitCode":3,"signal":null}', '/tmp bad up false 3', '{"output":"y\\ny\\ny\\ny\\ny\\n","truncated":true}', '{}', '9', '{}', '-32002', '-32602', '-32601',
		]);
	});

	test('secrets are in no event, also in pieces', async () => {
		const value = 'correct-horse-battery';
		const { id, stdout } = await run(cloche, { instruction: 'secret', agent: 'fake', env: { MY_TOKEN: value } });
		assert.equal(stdout, 'the token is [REDACTED]!\n');
		const events = await cloche.api('GET', `/tasks/${id}/events?limit=1000`);
		assert.ok(!String(events.bytes).includes('horse'), String(events.bytes));
	});

	test('secrets are in no name and no reason either, and an event has its bounds', async () => {
		const value = 'correct-horse-battery';
		const { id } = await run(cloche, { instruction: 'wide', agent: 'fake', env: { MY_TOKEN: value } });
		const events = await cloche.api('GET', `/tasks/${id}/events?kind=agent.update`);
		const text = JSON.stringify(events.body.items[0]);
		assert.ok(text.length < 130 * 1024, String(text.length));
		assert.ok(text.includes('"[REDACTED]":2') && !text.includes('horse') && !text.includes('n'.repeat(200)), text.slice(0, 1000));
		const told = await run(cloche, { instruction: 'tells', agent: 'fake', env: { MY_TOKEN: value } });
		assert.equal(told.run.detail, 'the agent answered: cannot use [REDACTED]');
	});

	test('what one asks for counts as what it says', async () => {
		const task = await run(cloche, { instruction: 'begs', agent: 'fake' });
		assert.deepEqual([task.status, task.stdout], ['completed', 'hello\n'], JSON.stringify(task.run));
		const turns = (await cloche.get('GET', `/tasks/${task.id}/events?kind=agent.turn`)).items;
		assert.ok(turns.at(-1).data.eventsLeftOut > 100, JSON.stringify(turns.at(-1)));
	});

	test('one that talks a lot is kept in bounds', async () => {
		const task = await run(cloche, { instruction: 'many', agent: 'fake' });
		assert.deepEqual([task.status, task.stdout], ['completed', 'hello\n'], JSON.stringify(task.run));
	});

	test('the daemon can be killed while one works', async () => {
		for (const [agent, instruction, wanted] of [
			['fake', 'wait', 'begun and done\n'],
			['cloche-agent', 'go', 'a line of words that takes its time\n'],
			['fake', 'lasting', 'begun slept0x\n'],
		]) {
			const { id } = await run(cloche, { instruction, agent, model: 'steady' }, {});
			await until(async () => (await updates(cloche, id)).length > 0, 'it speaks');
			const old = cloche.daemonProcess();
			process.kill(old.pid, 'SIGKILL');
			await until(() => !isAlive(old), 'it is dead');
			await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
			const { task } = await cloche.get('GET', `/tasks/${id}`, undefined, WAIT);
			// The gateway goes with the daemon: our agent asks the model again, and may have said the beginning before.
			assert.equal(task.status, 'completed', JSON.stringify(task.run));
			assert.ok(task.stdout.endsWith(wanted), task.stdout);
			const said = (await updates(cloche, id)).filter((update) => update.sessionUpdate === 'agent_message_chunk');
			if (agent === 'fake') assert.equal(said.map((update) => update.content.text).join(''), wanted.trim());
		}
	});

	test('what makes no sense is refused', async () => {
		for (const [body, status, pattern] of [
			[{ agent: 'nobody' }, 400, /'agent' is one of: shell, cloche-agent, pi/],
			[{ agent: 'shell', permissions: 'deny' }, 400, /asks for none/],
			[{ agent: 'fake', permissions: 'maybe' }, 400, /allow, deny or ask/],
			[{ agent: 'fake', model: 'a"b' }, 400, /'model' is/],
			[{ agent: 'pi', mcpServers: {} }, 400, /'pi' takes none/],
			[{ agent: 'gemini', reasoningEffort: 'low' }, 400, /'gemini' cannot be told/],
			[{ agent: 'offline', reasoningEffort: 'low' }, 400, /'offline' cannot be told/],
			[{ agent: 'fake', reasoningEffort: 'much' }, 400, /minimal, low, medium or high/],
			[{ agent: 'fake', mcpServers: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`s${i}`, { command: 'x' }])) }, 400, /at most 20/],
			[{ agent: 'fake', mcpServers: { 'a b': { url: 'http://x' } } }, 400, /a name is at most/],
			[{ agent: 'fake', mcpServers: { a: {} } }, 400, /give 'url' or 'command'/],
			[{ agent: 'fake', mcpServers: { a: { url: 'ftp://x' } } }, 400, /http:\/\/ or https/],
			[{ agent: 'fake', mcpServers: { a: { url: 'http://u:p@x' } } }, 400, /readable inside/],
			[{ agent: 'fake', mcpServers: { a: { url: 'http://x', headers: { AUTHORIZATION: 'Bearer x' } } } }, 400, /AUTHORIZATION would be readable inside/],
			[{ agent: 'fake', mcpServers: { a: { command: 'x', args: [1] } } }, 400, /'args' is a list of texts/],
			[{ agent: 'fake', mcpServers: { a: { command: 'x', cwd: '/' } } }, 400, /no member 'cwd'/],
			[{ agent: 'fake', skills: ['x'] }, 400, /no skill 'x'/],
			[{ agent: 'fake', mode: 'interactive' }, 400, /'mode'/],
		]) {
			const answer = await cloche.api('POST', '/tasks/run', { instruction: 'x', ...body });
			assert.equal(answer.status, status, String(answer.bytes));
			assert.match(answer.body.detail, pattern);
		}
	});

	test('one is told how hard to think, and which servers of MCP there are', async () => {
		const mcpServers = { here: { command: 'node', args: ['s.js'], env: { A: 'b' } }, there: { url: 'http://search.cloche.internal/mcp', headers: { 'X-Part': '1' } } };
		const task = await run(cloche, { instruction: 'servers', agent: 'fake', mcpServers, reasoningEffort: 'high' });
		const [, list, level] = /^(.*\])(\w+)\n$/.exec(task.stdout);
		assert.deepEqual(JSON.parse(list), [
			{ args: ['s.js'], command: 'node', env: [{ name: 'A', value: 'b' }], name: 'here' },
			{ headers: [{ name: 'X-Part', value: '1' }], name: 'there', type: 'http', url: 'http://search.cloche.internal/mcp' },
		]);
		assert.equal(level, 'high');
		const silent = await run(cloche, { instruction: 'servers', agent: 'offline', mcpServers: { there: { url: 'http://x/' } } });
		assert.deepEqual([silent.status, silent.endReason], ['failed', 'agent_error']);
		assert.match(silent.run.detail, /cannot reach the MCP server 'there'/);
		const { id } = await run(cloche, { instruction: 'go', agent: 'cloche-agent', reasoningEffort: 'low', model: 'talk' });
		assert.ok(id);
		assert.equal((await model.log()).at(-1).body.reasoning_effort, 'low');
	});

	test('one is installed from a folder, renewed, and used', async () => {
		const before = await cloche.json(['agent', 'list']);
		assert.deepEqual(before.map((agent) => [agent.name, agent.installed]).slice(0, 3), [['shell', true], ['cloche-agent', true], ['pi', false]]);
		const none = await cloche.cli(['agent', 'install', 'fake']);
		assert.equal(none.code, 64);
		assert.match(none.stderr, /give its npm install with --from DIR/);
		const folder = path.join(cloche.folder, 'pi');
		const bin = path.join(folder, 'node_modules/.bin');
		fs.mkdirSync(bin, { recursive: true });
		for (const word of ['first', 'second']) {
			const program = FAKE.replace("say('hel'); say('lo');", `say(process.env.PI_OFFLINE + ' ${word}'); say(require('fs').readFileSync('/home/agent/.pi/agent/settings.json', 'utf8').match(/gw/)[0]);`);
			fs.writeFileSync(path.join(bin, 'pi-acp'), `#!/usr/bin/env node\n${program}`, { mode: 0o755 });
			assert.equal(await cloche.ok(['agent', 'install', 'pi', '--from', folder]), 'agent-pi\n');
			const task = await run(cloche, { instruction: 'chat', agent: 'pi' });
			assert.deepEqual([task.status, task.stdout], ['completed', `1 ${word}gw\n`], JSON.stringify(task.run));
			await until(async () => (await cloche.get('GET', '/sandboxes?limit=1000')).items.length === 0, 'its sandbox is gone');
		}
		const linked = path.join(cloche.folder, 'linked');
		fs.mkdirSync(linked);
		fs.symlinkSync(path.join(folder, 'node_modules'), path.join(linked, 'node_modules'));
		const link = await cloche.cli(['agent', 'install', 'pi', '--from', linked]);
		assert.deepEqual([link.code, /is a link: give the folder/.test(link.stderr)], [64, true], link.stderr);
		const [, , pi] = await cloche.json(['agent', 'list']);
		assert.deepEqual([pi.installed, pi.image], [true, 'agent-pi']);
		assert.equal(await cloche.ok(['agent', 'test', 'shell']), 'ready\n');
		assert.equal((await cloche.cli(['agent', 'install', 'shell', '--from', folder])).code, 64);
	});

	test('one is installed by npm in a sandbox, and renewed', async () => {
		for (const word of ['first', 'second']) {
			packages.word = word;
			const made = await cloche.cli(['agent', 'install', 'opencode']);
			assert.deepEqual([made.code, made.stdout], [0, 'agent-opencode\n'], made.stderr);
			assert.match(made.stderr, /installing opencode-ai@1\.18\.33 in sandbox sb_/);
			const task = await run(cloche, { instruction: 'chat', agent: 'opencode' });
			assert.deepEqual([task.status, task.stdout], ['completed', `opencode acp ${word}\n`], JSON.stringify(task.run));
			await until(async () => (await cloche.get('GET', '/sandboxes?limit=1000')).items.length === 0, 'its sandbox is gone');
		}
		const [agent] = (await cloche.json(['agent', 'list'])).filter((row) => row.name === 'opencode');
		assert.deepEqual([agent.installed, agent.image], [true, 'agent-opencode']);
		const none = await cloche.cli(['agent', 'install', 'codex', '--network', 'none']);
		assert.equal(none.code, 64);
		assert.match(none.stderr, /npm could not install @zed-industries\/codex-acp@/);
		assert.equal((await cloche.json(['agent', 'list'])).find((row) => row.name === 'codex').installed, false);
	});

	test('the key of the provider is nowhere inside', async () => {
		const task = await run(cloche, { instruction: 'env; cat /proc/*/environ 2>/dev/null; ls -la /run/cloche; cloche-agent --help' });
		assert.ok(!task.stdout.includes(KEY));
		assert.match(task.stdout, /cloche-agent -> cloche/);
		assert.match(task.stdout, /usage: cloche-agent/);
	});
});
