// Agents that speak the Agent Client Protocol: ours against a scripted model, and one that misbehaves in every way.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, isAlive, until } from './lib.mjs';
import { Model, providers } from './lib/model.mjs';

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
let prompt;
const ways = {
  chat() { say('hel'); say('lo'); out({ id: prompt, result: { stopReason: 'end_turn' } }); },
  nonsense() { console.log('this is no JSON'); },
  half() { process.stdout.write('{"jsonrpc":"2.0","id":'); process.exit(0); },
  huge() { const x = 'x'.repeat(1 << 20); const more = () => process.stdout.write(x, more); more(); },
  silent() { setInterval(() => {}, 1000); },
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
  if (m.method === 'initialize') return out({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'fake', version: '1' }, agentCapabilities: {} } });
  if (m.method === 'session/new') return out({ id: m.id, result: { sessionId: 's1' } });
  if (m.method === 'session/prompt') { prompt = m.id; return ways[m.params.prompt[0].text](); }
  if (m.id === 77) { say('option ' + (m.result?.outcome?.optionId ?? 'none')); out({ id: prompt, result: { stopReason: 'end_turn' } }); }
};
let rest = '';
process.stdin.on('data', (part) => { rest += part; let at; while ((at = rest.indexOf('\\n')) >= 0) { const line = rest.slice(0, at); rest = rest.slice(at + 1); handle(JSON.parse(line)); } });
process.stdin.on('end', () => process.exit(0));
`;

async function run(cloche, body, options = WAIT) {
	const answer = await cloche.api('POST', '/tasks/run', body, options);
	assert.ok(answer.status < 300, `${answer.status} ${answer.bytes}`);
	return answer.body.task;
}

const updates = async (cloche, id) => (await cloche.get('GET', `/tasks/${id}/events?limit=1000`)).items.filter((event) => event.kind === 'agent.update').map((event) => event.data.update);

describe('agents', () => {
	let model, cloche;

	before(async () => {
		model = await Model.start({ script: SCRIPT, key: KEY });
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY } });
		cloche.configure(`
[sandboxes.default]
pool = 2
${providers(model.url, 'secret = "env:CLOCHE_TEST_MODEL_KEY"\ndefault_model = "default"\n')}
[agents.fake]
command = ["node", "-e", ${JSON.stringify(FAKE)}]
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
		]) {
			const { id } = await run(cloche, { instruction, agent, model: 'steady' }, {});
			await until(async () => (await updates(cloche, id)).length > 0, 'it speaks');
			const old = cloche.daemonProcess();
			process.kill(old.pid, 'SIGKILL');
			await until(() => !isAlive(old), 'it is dead');
			await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers', 15000);
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
			[{ agent: 'fake', permissions: 'maybe' }, 400, /allow or deny/],
			[{ agent: 'fake', model: 'a"b' }, 400, /'model' is/],
			[{ agent: 'fake', skills: ['x'] }, 501, /does not pass it on/],
			[{ agent: 'fake', mode: 'interactive' }, 400, /'mode'/],
		]) {
			const answer = await cloche.api('POST', '/tasks/run', { instruction: 'x', ...body });
			assert.equal(answer.status, status, String(answer.bytes));
			assert.match(answer.body.detail, pattern);
		}
	});

	test('one is installed from a folder, renewed, and used', async () => {
		const before = await cloche.json(['agent', 'list']);
		assert.deepEqual(before.map((agent) => [agent.name, agent.installed]).slice(0, 3), [['shell', true], ['cloche-agent', true], ['pi', false]]);
		const none = await cloche.cli(['agent', 'install', 'pi']);
		assert.equal(none.code, 64);
		assert.match(none.stderr, /npm install --prefix DIR .*pi-acp@/);
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
		const [, , pi] = await cloche.json(['agent', 'list']);
		assert.deepEqual([pi.installed, pi.image], [true, 'agent-pi']);
		assert.equal(await cloche.ok(['agent', 'test', 'shell']), 'ready\n');
		assert.equal((await cloche.cli(['agent', 'install', 'shell', '--from', folder])).code, 64);
	});

	test('the key of the provider is nowhere inside', async () => {
		const task = await run(cloche, { instruction: 'env; cat /proc/*/environ 2>/dev/null; ls -la /run/cloche; cloche-agent --help' });
		assert.ok(!task.stdout.includes(KEY));
		assert.match(task.stdout, /cloche-agent -> cloche/);
		assert.match(task.stdout, /usage: cloche-agent/);
	});
});
