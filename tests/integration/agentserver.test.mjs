// The agent server of a session: a client outside drives it at port 8080 with a token of that session, and whatever listens there inside is never asked.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { call, events, stream, until } from './lib/http.mjs';

// Waits, asks for a permission, or says what it was told.
const FAKE = `
const out = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\\n');
const say = (text) => out({ method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } } } });
let prompt, timer, asked = 0;
const stop = (stopReason) => { clearTimeout(timer); out({ id: prompt, result: { stopReason } }); };
const handle = (m) => {
  if (m.method === 'initialize') return out({ id: m.id, result: { protocolVersion: 1, agentCapabilities: {} } });
  if (m.method === 'session/new') return out({ id: m.id, result: { sessionId: 's' } });
  if (m.method === 'session/cancel') return stop('cancelled');
  if (m.id === 'may') { say(m.result.outcome.optionId ?? 'cancelled'); return stop('end_turn'); }
  if (m.method !== 'session/prompt') return;
  prompt = m.id;
  asked++;
  const text = m.params.prompt.at(-1).text;
  if (text.startsWith('wait')) timer = setTimeout(() => { say('waited ' + asked); stop('end_turn'); }, Number(text.slice(5)));
  else if (text.startsWith('may')) out({ id: 'may', method: 'session/request_permission', params: { sessionId: 's', toolCall: { toolCallId: 't', title: 'rm -rf' }, options: [{ optionId: 'yes', kind: 'allow_once' }, { optionId: 'no', kind: 'reject_once' }] } });
  else { say(text + ' ' + asked); stop('end_turn'); }
};
let rest = '';
process.stdin.on('data', (part) => { rest += part; let at; while ((at = rest.indexOf('\\n')) >= 0) { handle(JSON.parse(rest.slice(0, at))); rest = rest.slice(at + 1); } });
process.stdin.on('end', () => process.exit(0));
`;

const HOSTILE = `
const seen = [];
require('http').createServer((q, r) => {
  seen.push(q.url + ' ' + JSON.stringify(q.headers));
  r.end(q.url === '/seen' ? JSON.stringify(seen) : '{"status":"ok","readiness":"ready","hostile":true}');
}).listen(8080, '127.0.0.1', () => console.log('listening'));
`;

describe('the agent server', () => {
	let cloche;

	const start = async (more = {}) => {
		const { session } = await cloche.get('POST', '/sessions', { agent: 'fake', ...more });
		await until(async () => (await cloche.get('GET', `/sessions/${session.id}`)).session.phase === 'idle', 'the agent is there');
		return (await cloche.get('GET', `/sessions/${session.id}`)).session;
	};
	const connect = (session) => cloche.get('GET', `/sandboxes/${session.sandbox.sandbox_id}/connect`);
	const below = (link, path) => new URL(link.url).pathname + path;
	const ask = (link, method, path, body, token = link.token) =>
		call(cloche.socket, method, below(link, path), body, { headers: token ? { authorization: `Bearer ${token}` } : {} });
	const command = async (link, method, params = {}) => {
		const answer = await ask(link, 'POST', '/command', { jsonrpc: '2.0', id: 7, method, params });
		assert.equal(answer.status, 200, String(answer.bytes));
		assert.deepEqual([answer.body.jsonrpc, answer.body.id], ['2.0', 7]);
		return answer.body;
	};
	const end = (session) => cloche.get('POST', `/sessions/${session.id}/end`, {});

	before(async () => {
		cloche = new Daemon();
		cloche.configure(`[agents.fake]\ncommand = ["node", "-e", ${JSON.stringify(FAKE)}]\n`);
		await cloche.serve();
	});
	after(() => cloche.discard());

	test('a client with the token alone drives the session', async () => {
		const session = await start();
		const link = await connect(session);
		assert.deepEqual([link.session, link.run], [session.id, session.run]);
		const printed = await cloche.json(['session', 'connect', session.id]);
		assert.equal(new URL(printed.url).pathname, new URL(link.url).pathname);
		assert.ok(link.url.endsWith(`/api/v1/sandboxes/${session.sandbox.sandbox_id}/ports/8080`), link.url);
		assert.ok(Date.parse(link.expiresAt) > Date.now());
		const { body } = await ask(link, 'GET', '/health');
		assert.deepEqual([body.status, body.hasSession, body.readiness, body.busy, body.run], ['ok', true, 'ready', false, session.run]);
		assert.ok(body.phases.some((phase) => phase.name === 'provision' && phase.ms >= 0), JSON.stringify(body));
		assert.ok(body.capabilities.includes('user_message'));

		const feed = await stream(cloche.socket, 'GET', below(link, '/events'), { headers: { authorization: `Bearer ${link.token}` } });
		const told = [];
		const reading = (async () => { for await (const event of events(feed)) told.push(event); })();
		const { result } = await command(link, 'user_message', { content: [{ type: 'text', text: 'hello' }], messageId: 'm1' });
		assert.deepEqual([result.stopReason, result.turn.status, result.turn.text], ['end_turn', 'completed', 'hello 1']);
		await until(() => told.some((event) => event.event === 'agent.update' && event.data.includes('hello 1')), 'it is told');
		assert.deepEqual(JSON.parse(told[0].data), { type: 'connected', run_id: session.run, session_id: session.id });
		assert.ok(told.some((event) => event.event === 'task.started'), 'what was before is told, too');

		const after = told.findLast((event) => event.event === 'agent.update').id;
		const again = await stream(cloche.socket, 'GET', below(link, '/events'), { headers: { authorization: `Bearer ${link.token}`, 'last-event-id': after } });
		const rest = [];
		const resumed = (async () => { for await (const event of events(again)) rest.push(event); })();
		assert.deepEqual((await command(link, 'close')).result, {});
		await Promise.all([reading, resumed]);
		assert.equal(told.at(-1).event, 'task.completed');
		assert.equal(rest.at(-1).event, 'task.completed');
		assert.ok(rest.slice(1).every((event) => Number(event.id) > Number(after)));
		const late = await ask(link, 'GET', '/health');
		assert.equal(late.status, 401, 'the token ends with the session');
	});

	test('message ids are asked once; steer or queue, cancel', async () => {
		const session = await start();
		const link = await connect(session);
		const twice = await Promise.all([1, 2].map(() => command(link, 'user_message', { content: 'wait 300', messageId: 'a' })));
		assert.deepEqual(twice.map((one) => [one.result.stopReason, one.result.turn.text]), [['end_turn', 'waited 1'], ['end_turn', 'waited 1']]);
		const replayed = (await command(link, 'user_message', { content: 'wait 300', messageId: 'a' })).result;
		assert.deepEqual([replayed.stopReason, replayed.turn.id], ['duplicate_delivery', twice[0].result.turn.id]);
		const other = await command(link, 'user_message', { content: 'other words', messageId: 'a' });
		assert.deepEqual([other.error.code, other.error.data.code], [-32000, 'conflict']);

		const busy = async () => (await ask(link, 'GET', '/health')).body.busy;
		const first = command(link, 'user_message', { content: 'wait 60000', messageId: 'b' });
		await until(busy, 'it runs');
		const queued = command(link, 'user_message', { content: 'queued', messageId: 'c' });
		await until(async () => (await cloche.get('GET', `/sessions/${session.id}`)).session.queued === 1, 'it waits');
		const steered = await command(link, 'user_message', { content: 'steer', messageId: 'd', steer: true });
		assert.deepEqual([(await first).result.stopReason, steered.result.turn.text, (await queued).result.turn.text], ['steered', 'steer 3', 'queued 4']);

		const stopped = command(link, 'user_message', { content: 'wait 60000' });
		await until(busy, 'it runs');
		await command(link, 'cancel');
		assert.equal((await stopped).result.stopReason, 'cancelled');
		assert.deepEqual((await command(link, 'cancel')).result, {}, 'nothing runs, nothing happens');
		await end(session);
	});

	test('what is no command is refused with a number, and the session goes on', async () => {
		const session = await start();
		const link = await connect(session);
		for (const [method, params, code] of [
			['user_message', {}, -32602],
			['user_message', { content: 7 }, -32602],
			['user_message', { content: [{ type: 'image', data: 'x' }] }, -32602],
			['user_message', { content: 'x', timeout: 'soon' }, -32602],
			['user_message', { content: 'x'.repeat(300 * 1024) }, -32602],
			['permission_response', { requestId: 'ap_0', optionId: 'maybe' }, -32602],
			['permission_response', { requestId: 'ap_0', optionId: 'allow' }, -32602],
			['exec', { argv: ['id'] }, -32601],
		]) assert.equal((await command(link, method, params)).error.code, code, method + JSON.stringify(params).slice(0, 60));
		for (const [body, code] of [['{', -32700], ['[]', -32600], ['{"jsonrpc":"2.0","method":"close"}', -32600]]) {
			const answer = await ask(link, 'POST', '/command', body);
			assert.deepEqual([answer.status, answer.body.error.code], [400, code], body);
		}
		assert.equal((await ask(link, 'POST', '/command', 'x'.repeat(2 * 1024 * 1024))).status, 413);
		assert.equal((await ask(link, 'GET', '/command')).status, 405);
		assert.equal((await ask(link, 'GET', '/else')).status, 404);
		assert.equal((await command(link, 'user_message', { content: 'still here' })).result.turn.text, 'still here 1');
		await end(session);
	});

	test('permissions are answered by whom may; not with a token that was asked for inside', async () => {
		const session = await start({ permissions: 'ask', scopes: ['sessions:write', 'sessions:read', 'sandboxes:read'] });
		const link = await connect(session);
		const turn = command(link, 'user_message', { content: 'may I?' });
		const waiting = async () => (await cloche.get('GET', '/approvals')).items.find((one) => one.sandbox === session.sandbox.sandbox_id);
		await until(waiting, 'it asks');
		const { id } = await waiting();
		const inside = await cloche.exec(session.sandbox.sandbox_id, ['curl', '-s', '--unix-socket', '/run/cloche/api.sock', `http://x/api/v1/sandboxes/${session.sandbox.sandbox_id}/connect`]);
		const own = JSON.parse(inside.stdout);
		const refused = (await command({ ...link, token: own.token }, 'permission_response', { requestId: id, optionId: 'allow' })).error;
		assert.deepEqual([refused.code, refused.data.code], [-32000, 'forbidden']);
		assert.deepEqual((await command(link, 'permission_response', { requestId: id, optionId: 'deny' })).result, {});
		assert.equal((await turn).result.turn.text, 'no');
		await end(session);
	});

	test('no token, a wrong one, another session\'s: nobody gets in, and it opens nothing else', async () => {
		const [one, two] = [await start(), await start()];
		const [mine, theirs] = [await connect(one), await connect(two)];
		for (const path of ['/events', '/command']) {
			const method = path === '/events' ? 'GET' : 'POST';
			assert.equal((await ask(mine, method, path, undefined, null)).status, 401, 'not even for an operator');
			assert.equal((await ask(mine, method, path, undefined, theirs.token)).status, 403);
			const at = mine.token.length - 9;
			const changed = mine.token.slice(0, at) + (mine.token[at] === '0' ? '1' : '0') + mine.token.slice(at + 1);
			for (const wrong of [changed, mine.token.slice(0, -1), `${mine.token}0`, mine.token.replace('.a.', '.s.'), mine.token.replace(/\.\d+\./, '.99999999999999.'),
				mine.token.replace(one.run, two.run), 'cn_rn_', `cn_rn_${'0'.repeat(20)}.1.a.${'0'.repeat(64)}`])
				assert.equal((await ask(mine, method, path, undefined, wrong)).status, 401, wrong);
		}
		const bearer = { headers: { authorization: `Bearer ${mine.token}` } };
		const id = one.sandbox.sandbox_id;
		for (const route of [`/sandboxes/${id}`, `/sandboxes/${id}/connect`, `/sessions/${one.id}`, '/me', '/sandboxes', `/sandboxes/${id}/files?path=/`])
			assert.equal((await cloche.api('GET', route, undefined, bearer)).status, 401, route);
		assert.equal((await cloche.api('POST', `/sandboxes/${id}/execs`, { argv: ['id'] }, bearer)).status, 401);
		for (const port of [80, 8081]) assert.equal((await cloche.api('GET', `/sandboxes/${id}/ports/${port}/health`, undefined, bearer)).status, 403);
		await end(one);
		await end(two);
		const plain = await cloche.create({});
		const none = await cloche.api('GET', `/sandboxes/${plain.id ?? plain}/connect`);
		assert.equal(none.status, 409, String(none.bytes));
	});

	test('whoever sits on port 8080 inside is not asked, and sees no token', async () => {
		const sandbox = await cloche.create({});
		const id = sandbox.id ?? sandbox;
		await cloche.get('POST', `/sandboxes/${id}/execs`, { argv: ['node', '-e', HOSTILE], background: true });
		const answers = async () => /hostile/.test(String((await cloche.api('GET', `/sandboxes/${id}/ports/8080/health`)).bytes));
		await until(answers, 'it listens');
		const session = await start({ sandbox: id });
		const link = await connect(session);
		const { body } = await ask(link, 'GET', '/health');
		assert.deepEqual([body.hostile, body.run], [undefined, session.run]);
		assert.equal((await command(link, 'user_message', { content: 'hello' })).result.turn.text, 'hello 1');
		const seen = String((await cloche.api('GET', `/sandboxes/${id}/ports/8080/seen`)).bytes);
		assert.ok(seen.includes('/seen') && !seen.includes('/command') && !seen.includes('cn_rn_'), seen);
		await end(session);
		assert.ok(await answers(), 'afterwards it is its own port again');
	});
});
