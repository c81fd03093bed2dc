// Sessions: an agent that stays for many turns, whose answers fit a schema, through every way a turn can end.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Daemon, isAlive, until } from './lib.mjs';
import { Model, providers } from './lib/model.mjs';

const NOW = { headers: { Prefer: 'respond-async' } };
const SCHEMA = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } }, additionalProperties: false };

const SCRIPT = {
	default: [
		{ shell: 'echo 7 > seven.txt; cat seven.txt', usage: { in: 1000, out: 30, cached: 200 } },
		{ json: { n: 7 }, usage: { in: 1200, out: 40, cached: 900 } },
		{ text: 'It is seven.', usage: { in: 1300, out: 10, cached: 900 } },
	],
	steady: [{ text: 'a line of words that takes its time', delayMs: 350 }, { text: 'and another' }],
};

// What a prompt says after "do:" is what it does. `asked` counts prompts, so that a second chance can be used.
const FAKE = `
const out = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\\n');
const update = (u) => out({ method: 'session/update', params: { sessionId: 's1', update: u } });
const say = (text) => update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
let prompt, asked = 0, timer, seen = [];
const stop = (stopReason) => { clearTimeout(timer); out({ id: prompt, result: { stopReason } }); };
const answer = (text) => { if (text) say(text); stop('end_turn'); };
const ways = {
  say(rest) { answer(rest); },
  empty() { answer(''); },
  blank(rest, again) { answer(again ? 'after all' : ' \\n'); },
  fix(rest, again) { answer(again ? 'Here you are:\\n\`\`\`json\\n{"n": 3}\\n\`\`\`' : '{"n": "three"}'); },
  prose() { answer('I would rather not give numbers.'); },
  wrong() { answer('{"n": 1.5, "m": 2}'); },
  refuse() { say('partial'); stop('refusal'); },
  max() { stop('max_tokens'); },
  fail() { out({ id: prompt, error: { code: -32603, message: 'no model' } }); },
  die() { process.exit(9); },
  silent() {},
  junk() { process.stdout.write('this is no message\\n'); },
  half() { process.stdout.write('{"jsonrpc":"2.0","id":' + prompt + ',"result":{"stopReason":7}}\\n'); },
  huge() { process.stdout.write('x'.repeat(9 * 1024 * 1024)); },
  deep() { process.stdout.write('['.repeat(100000) + '\\n'); },
  deaf() { ways.isDeaf = true; },
  wait(rest) { say('begun '); timer = setTimeout(() => answer('and done'), Number(rest)); },
  seen() { answer(JSON.stringify(seen)); },
  secret() { say('it is ' + process.env.MY_TOKEN.slice(0, 5)); timer = setTimeout(() => answer(process.env.MY_TOKEN.slice(5) + '!'), 100); },
};
const handle = (m) => {
  if (m.method === 'initialize') return out({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'fake', version: '1' }, agentCapabilities: {} } });
  if (m.method === 'session/new') return out({ id: m.id, result: { sessionId: 's1' } });
  if (m.method === 'session/cancel' && !ways.isDeaf) return stop('cancelled');
  if (m.method !== 'session/prompt') return;
  prompt = m.id;
  const text = m.params.prompt.map((block) => block.text).join('\\n');
  const found = /do:(\\w+) ?(.*)/.exec(text);
  if (found) handle.last = found;
  seen.push(text);
  ways[handle.last[1]](handle.last[2], !found);
};
let rest = '';
process.stdin.on('data', (part) => { rest += part; let at; while ((at = rest.indexOf('\\n')) >= 0) { const line = rest.slice(0, at); rest = rest.slice(at + 1); handle(JSON.parse(line)); } });
process.stdin.on('end', () => process.exit(0));
`;

describe('sessions', () => {
	let model, cloche;

	const start = async (body = {}, options) => cloche.get('POST', '/sessions', { agent: 'fake', ...body }, options);
	const ask = async (id, prompt, more = {}, options) => (await cloche.get('POST', `/sessions/${id}/turns`, { prompt, ...more }, options)).turn;
	const look = async (id) => (await cloche.get('GET', `/sessions/${id}`)).session;
	const end = async (id, body = {}) => (await cloche.get('POST', `/sessions/${id}/end`, body)).session;

	before(async () => {
		model = await Model.start({ script: SCRIPT });
		cloche = new Daemon();
		cloche.configure(`
[sandboxes.default]
pool = 2
${providers(model.url, 'default_model = "default"\nprices = { "*" = { input = 1.0, output = 4.0 } }\n')}
[agents.fake]
command = ["node", "-e", ${JSON.stringify(FAKE)}]
`);
		await cloche.serve();
	});
	after(async () => {
		await cloche.discard();
		await model.stop();
	});

	test('ours answers turn by turn, in one sandbox and one conversation', async () => {
		const { session, turn } = await cloche.get('POST', '/sessions', { prompt: 'write seven', outputSchema: SCHEMA, stepName: 'discovery', context: { about: 'numbers' } });
		assert.deepEqual([turn.status, turn.reason, turn.output, turn.label, turn.number], ['completed', 'finished', { n: 7 }, 'discovery', 1], JSON.stringify(turn));
		assert.deepEqual([turn.inputTokens, turn.outputTokens], [2200, 70]);
		assert.ok(turn.cost > 0);
		assert.deepEqual([session.status, session.phase, session.agent], ['running', 'idle', 'cloche-agent']);
		assert.match(session.agentVersion, /^cloche-agent /);
		const box = session.sandbox;
		assert.deepEqual([box.backend, box.profile, box.state, box.last_error], ['native', 'default', 'running', null]);
		const again = await ask(session.id, 'which number is it?');
		assert.deepEqual([again.text, again.output, again.inputTokens, again.number], ['It is seven.', null, 1300, 2]);
		const requests = await model.log();
		const last = JSON.stringify(requests.at(-1));
		assert.ok(last.includes('write seven') && last.includes('numbers') && last.includes('which number'), last);
		const over = await end(session.id);
		assert.deepEqual([over.status, over.endReason, over.turns, over.phase], ['completed', 'finished', 2, null], JSON.stringify(over));
		assert.deepEqual([over.inputTokens, over.outputTokens], [3500, 80]);
		const listed = (await cloche.get('GET', `/sessions/${session.id}/turns`)).items;
		assert.deepEqual(listed.map((one) => [one.number, one.status]), [[1, 'completed'], [2, 'completed']]);
		await until(async () => (await cloche.get('GET', '/sandboxes?limit=1000')).items.length === 0, 'its sandbox is gone');
		const late = await cloche.api('POST', `/sessions/${session.id}/turns`, { prompt: 'x' });
		assert.equal(late.status, 409, String(late.bytes));
		assert.ok((await cloche.get('GET', '/sessions')).items.some((one) => one.id === session.id));
		assert.ok(!(await cloche.get('GET', '/tasks')).items.some((one) => one.id === session.id));
		const { task } = await cloche.get('GET', `/tasks/${session.id}`);
		assert.deepEqual([task.mode, task.status], ['interactive', 'completed']);
	});

	test('a turn has an end that says what came of it, and the session goes on', async () => {
		const { session } = await start();
		for (const [prompt, schema, status, reason, more] of [
			['do:say hello', undefined, 'completed', 'finished', { text: 'hello', attempts: 1 }],
			['do:empty', undefined, 'failed', 'empty', { attempts: 2, nudged: true }],
			['do:blank', undefined, 'completed', 'finished', { text: 'after all', attempts: 2, nudged: true }],
			['do:fix', SCHEMA, 'completed', 'finished', { output: { n: 3 }, attempts: 2, repaired: true }],
			['do:prose', SCHEMA, 'failed', 'invalid_json', { output: null, attempts: 2 }],
			['do:wrong', SCHEMA, 'failed', 'schema_mismatch', { output: null, attempts: 2 }],
			['do:refuse', undefined, 'failed', 'refusal', { text: null, stopReason: 'refusal' }],
			['do:max', undefined, 'failed', 'agent_error', { stopReason: 'max_tokens' }],
			['do:fail', undefined, 'failed', 'agent_error', { detail: 'the agent answered: no model' }],
		]) {
			const turn = await ask(session.id, prompt, { outputSchema: schema });
			assert.deepEqual([turn.status, turn.reason], [status, reason], JSON.stringify(turn));
			for (const [name, value] of Object.entries(more)) assert.deepEqual(turn[name], value, `${name} ${JSON.stringify(turn)}`);
		}
		const seen = JSON.parse((await ask(session.id, 'do:seen')).text);
		const repair = seen.find((text) => text.includes('does not fit its schema') && text.includes('/m'));
		assert.match(repair, /- .*\/n.*\n- .*\/m|- .*\/m.*\n- .*\/n|\/n[\s\S]*\/m|\/m[\s\S]*\/n/);
		assert.ok(seen.some((text) => text.includes('must fit this JSON Schema')));
		const failed = await end(session.id, { status: 'failed', error: 'not good enough' });
		assert.deepEqual([failed.status, failed.endReason, failed.detail], ['failed', 'failed', 'not good enough']);
	});

	test('time, cancelling and steering end a turn, not the session', async () => {
		const { session } = await start();
		const late = await ask(session.id, 'do:silent', { timeout: 500 });
		assert.deepEqual([late.status, late.reason], ['failed', 'timeout'], JSON.stringify(late));
		assert.match(late.detail, /longer than 500 ms; the agent said nothing/);
		const stalled = await ask(session.id, 'do:wait 60000', { timeout: 700 });
		assert.match(stalled.detail, /last heard/);

		const busy = await ask(session.id, 'do:wait 60000', {}, NOW);
		const queued = await ask(session.id, 'do:say queued', {}, NOW);
		const third = await ask(session.id, 'do:say third', {}, NOW);
		assert.deepEqual([queued.status, third.status], ['queued', 'queued']);
		await until(async () => (await look(session.id)).turn === busy.id, 'it runs');
		const dropped = (await cloche.get('POST', `/sessions/${session.id}/turns/${queued.id}/cancel`, {})).turn;
		assert.deepEqual([dropped.status, dropped.reason, dropped.startedAt], ['cancelled', 'cancelled', null]);
		const steer = await ask(session.id, 'do:say steered', { steer: true });
		assert.deepEqual([steer.status, steer.text], ['completed', 'steered']);
		const turns = (await cloche.get('GET', `/sessions/${session.id}/turns`)).items;
		assert.deepEqual(turns.find((turn) => turn.id === busy.id).reason, 'steered');
		const { turn } = await cloche.get('GET', `/sessions/${session.id}/turns/${third.id}`, undefined, { headers: { Prefer: 'wait=30' } });
		assert.deepEqual([turn.status, turn.text], ['completed', 'third']);
		assert.ok(turn.startedAt >= steer.completedAt, 'what steers goes first');

		const more = await ask(session.id, 'do:wait 60000', {}, NOW);
		await until(async () => (await look(session.id)).turn === more.id, 'it runs');
		const cancelled = (await cloche.get('POST', `/sessions/${session.id}/turns/${more.id}/cancel`, {})).turn;
		assert.deepEqual([cancelled.status, cancelled.reason], ['cancelled', 'cancelled']);
		assert.equal((await ask(session.id, 'do:say still here')).text, 'still here');
		const last = await ask(session.id, 'do:wait 60000', {}, NOW);
		await end(session.id, { status: 'cancelled' });
		const left = (await cloche.get('GET', `/sessions/${session.id}/turns/${last.id}`)).turn;
		assert.deepEqual([left.status, left.reason], ['cancelled', 'session_ended']);
	});

	test('the same message is asked once', async () => {
		const { session } = await start();
		const [one, two] = await Promise.all([1, 2].map(() => cloche.get('POST', `/sessions/${session.id}/turns`, { prompt: 'do:wait 300', messageId: 'm-1' })));
		assert.equal(one.turn.id, two.turn.id);
		assert.deepEqual([one.duplicate, two.duplicate].filter(Boolean), [true]);
		const three = await cloche.get('POST', `/sessions/${session.id}/turns`, { prompt: 'do:wait 300', messageId: 'm-1' });
		assert.deepEqual([three.duplicate, three.turn.id], [true, one.turn.id]);
		const other = await cloche.api('POST', `/sessions/${session.id}/turns`, { prompt: 'other words', messageId: 'm-1' });
		assert.equal(other.status, 409);
		assert.equal(JSON.parse((await ask(session.id, 'do:seen')).text).length, 2);
		await end(session.id);
	});

	test('an agent that dies, and one that is deaf, end the session with a name', async () => {
		const died = await start();
		const turn = await ask(died.session.id, 'do:die');
		assert.deepEqual([turn.status, turn.reason], ['failed', 'agent_died'], JSON.stringify(turn));
		assert.match(turn.detail, /status 9/);
		const { session } = await cloche.get('GET', `/sessions/${died.session.id}`, undefined, { headers: { Prefer: 'wait=30' } });
		assert.deepEqual([session.status, session.endReason], ['failed', 'agent_error']);

		const first = await start({ prompt: 'do:refuse' });
		assert.deepEqual([first.turn.reason], ['refusal']);
		const over = (await cloche.get('GET', `/sessions/${first.session.id}`, undefined, { headers: { Prefer: 'wait=30' } })).session;
		assert.deepEqual([over.status, over.endReason], ['failed', 'refusal'], JSON.stringify(over));

		const idle = await start({ idleTimeout: 1000 });
		const gone = (await cloche.get('GET', `/sessions/${idle.session.id}`, undefined, { headers: { Prefer: 'wait=60' } })).session;
		assert.deepEqual([gone.status, gone.endReason], ['failed', 'idle']);
	});

	test('one that breaks the protocol ends its turn with a reason', async () => {
		for (const [way, reason, pattern] of [
			['junk', 'agent_died', /a message that is not JSON/],
			['deep', 'agent_died', /a message that is not JSON/],
			['huge', 'agent_died', /a message that is too long/],
			['half', 'agent_error', /without a known reason/],
		]) {
			const { session } = await start();
			const turn = await ask(session.id, `do:${way}`, { timeout: 60000 });
			assert.deepEqual([turn.status, turn.reason], ['failed', reason], `${way} ${JSON.stringify(turn)}`);
			assert.match(turn.detail, pattern);
			await end(session.id);
		}
	});

	test('secrets are in no answer', async () => {
		const { session } = await start({ env: { MY_TOKEN: 'correct-horse-battery' } });
		assert.equal((await ask(session.id, 'do:secret')).text, 'it is [REDACTED]!');
		await end(session.id);
	});

	test('it works in a sandbox that is there, and leaves it', async () => {
		const sandbox = await cloche.create({});
		const { session } = await start({ sandbox: sandbox.id ?? sandbox });
		const id = (sandbox.id ?? sandbox);
		assert.equal((await ask(session.id, 'do:say there')).text, 'there');
		assert.equal((await look(session.id)).sandbox.sandbox_id, id);
		const second = await cloche.api('POST', '/sessions', { agent: 'fake', sandbox: id });
		assert.equal(second.status, 409, String(second.bytes));
		await end(session.id);
		const left = await cloche.get('GET', `/sandboxes/${id}`);
		assert.equal(left.state, 'running');
		await cloche.api('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('events are told as they come, and from where one left off', async () => {
		const { session } = await start();
		const stream = await cloche.events(`/sessions/${session.id}/events`);
		const asked = ask(session.id, 'do:wait 300', { label: 'slow' });
		const seen = [];
		for (;;) {
			const event = await stream.next(30000);
			seen.push(event);
			if (event.event === 'session.turn' && JSON.parse(event.data).data.status === 'completed') break;
		}
		stream.close();
		assert.equal((await asked).text, 'begun and done');
		const states = seen.filter((event) => event.event === 'session.turn').map((event) => JSON.parse(event.data).data.status);
		assert.deepEqual(states, ['queued', 'running', 'completed']);
		const resumed = await cloche.events(`/sessions/${session.id}/events`, { lastEventId: seen.at(-2).id });
		assert.equal((await resumed.next(30000)).id, seen.at(-1).id);
		resumed.close();
		const page = (await cloche.get('GET', `/sessions/${session.id}/events?last=1`)).items;
		assert.equal(page.length, 1);
		await end(session.id);
	});

	test('what is acknowledged is done once, whoever is killed', async () => {
		const { session } = await start();
		const first = await ask(session.id, 'do:wait 4000', { messageId: 'a' }, NOW);
		const second = await ask(session.id, 'do:say second', { messageId: 'b' }, NOW);
		await until(async () => (await cloche.get('GET', `/sessions/${session.id}/events?kind=agent.update`)).items.length > 0, 'it speaks');
		const old = cloche.daemonProcess();
		process.kill(old.pid, 'SIGKILL');
		await until(() => !isAlive(old), 'it is dead');
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
		const again = await cloche.get('POST', `/sessions/${session.id}/turns`, { prompt: 'do:wait 4000', messageId: 'a' });
		assert.deepEqual([again.duplicate, again.turn.id, again.turn.text], [true, first.id, 'begun and done'], JSON.stringify(again));
		const { turn } = await cloche.get('GET', `/sessions/${session.id}/turns/${second.id}`, undefined, { headers: { Prefer: 'wait=30' } });
		assert.deepEqual([turn.status, turn.text], ['completed', 'second']);
		const seen = JSON.parse((await ask(session.id, 'do:seen')).text);
		assert.deepEqual(seen, ['do:wait 4000', 'do:say second', 'do:seen']);
		await end(session.id);
	});

	test('the command line does all of it', async () => {
		const id = (await cloche.ok(['session', 'start', '--agent', 'fake', '--label', 'a=b', '--context', '{"who": "me"}'])).trim();
		assert.match(id, /^ses_/);
		assert.equal(await cloche.ok(['session', 'send', id, 'do:say hello']), 'hello\n');
		assert.equal(await cloche.ok(['session', 'send', id, 'do:fix', '--output-schema', JSON.stringify(SCHEMA)]), '{"n":3}\n');
		assert.equal(await cloche.ok(['session', 'send', id, '-'], { input: 'do:say from a pipe' }), 'from a pipe\n');
		const late = await cloche.cli(['session', 'send', id, 'do:silent', '--timeout', '500ms']);
		assert.deepEqual([late.code, late.stdout], [124, '']);
		assert.match(late.stderr, /failed \(timeout\)/);
		const status = await cloche.json(['session', 'status', id]);
		assert.deepEqual(Object.keys(status.sandbox), ['sandbox_id', 'backend', 'profile', 'instance_id', 'state', 'last_error']);
		assert.deepEqual([status.sandbox.state, status.turns, status.labels], ['running', 4, { a: 'b' }]);
		assert.match(await cloche.ok(['session', 'status', id]), /phase: +idle/);
		assert.match(await cloche.ok(['session', 'list']), new RegExp(`${id} +running +idle`));
		assert.equal((await cloche.ok(['session', 'events', id, '--last', '3'])).trim().split('\n').length, 3);
		const turn = (await cloche.ok(['session', 'send', id, 'do:wait 1500', '--detach'])).trim();
		assert.match(turn, /^trn_/);
		await cloche.ok(['session', 'wait', id, '--timeout', '60s']);
		assert.equal((await cloche.get('GET', `/sessions/${id}/turns/${turn}`)).turn.status, 'completed');
		assert.equal(await cloche.ok(['session', 'attach', id], { input: 'do:say one\ndo:wait 300\n' }), 'one\nbegun and done\n');
		await cloche.ok(['session', 'end', id, '--status', 'failed', '--error', 'enough']);
		assert.equal((await cloche.cli(['session', 'wait', id, '--over'])).code, 1);
		const over = await cloche.json(['session', 'status', id]);
		assert.deepEqual([over.status, over.detail], ['failed', 'enough'], JSON.stringify(over));
		assert.match(over.sandbox.state, /^remov(ing|ed)$/);
		const first = await cloche.cli(['session', 'start', '--agent', 'fake', 'do:say begun']);
		assert.deepEqual([first.code, first.stdout], [0, 'begun\n']);
		await cloche.ok(['session', 'end', first.stderr.trim()]);
	});

	test('so does a client of MCP', async () => {
		const tool = async (name, args) => {
			const lines = [
				{ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {} } },
				{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
			];
			const said = await cloche.ok(['mcp'], { input: lines.map((line) => `${JSON.stringify(line)}\n`).join('') });
			const answer = said.trim().split('\n').map((line) => JSON.parse(line)).find((line) => line.id === 1);
			assert.ok(answer?.result, said);
			return answer.result.structuredContent;
		};
		const { session, turn } = await tool('startSession', { agent: 'fake', prompt: 'do:say hello' });
		assert.deepEqual([turn.status, turn.text], ['completed', 'hello']);
		const sent = await tool('sendTurn', { session: session.id, prompt: 'do:wait 1500', waitSeconds: 0 });
		assert.notEqual(sent.turn.status, 'completed');
		const got = await tool('getTurn', { session: session.id, turn: sent.turn.id });
		assert.deepEqual([got.turn.status, got.turn.text], ['completed', 'begun and done']);
		assert.equal((await tool('endSession', { session: session.id })).session.status, 'completed');
	});

	test('what makes no sense is refused', async () => {
		const { session } = await start();
		for (const [route, body, status, pattern] of [
			['/sessions', { agent: 'shell' }, 400, /takes no messages/],
			['/sessions', { agent: 'fake', outputSchema: {} }, 400, /first turn/],
			['/sessions', { agent: 'fake', timeout: '7h' }, 400, /\[sessions\] timeout/],
			['/sessions', { agent: 'fake', sandbox: 'nothing' }, 404, /no sandbox/],
			['/tasks/run', { agent: 'fake', instruction: 'x', mode: 'interactive' }, 400, /POST \/sessions/],
			[`/sessions/${session.id}/turns`, { prompt: ' ' }, 400, /'prompt'/],
			[`/sessions/${session.id}/turns`, { prompt: 'x', outputSchema: { type: 'thing' } }, 400, /'outputSchema'/],
			[`/sessions/${session.id}/turns`, { prompt: 'x', label: 'y'.repeat(200) }, 400, /'label'/],
			[`/sessions/${session.id}/end`, { status: 'maybe' }, 400, /'status'/],
			['/sessions/tsk_x/turns', { prompt: 'x' }, 404, /no session/],
		]) {
			const answer = await cloche.api('POST', route, body);
			assert.equal(answer.status, status, String(answer.bytes));
			assert.match(answer.body.detail, pattern);
		}
		await end(session.id);
	});
});
