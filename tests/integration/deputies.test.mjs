// Rights of somebody else, borrowed: by the session of another, by an answer to a question, by a key that was made for
// it, by a webhook that outlives its owner. Nobody gets further than with their own.
import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, isRoot, until } from './lib.mjs';

// An agent that says what it was asked.
const ECHO = `
const out = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\\n');
const handle = (m) => {
  if (m.method === 'initialize') return out({ id: m.id, result: { protocolVersion: 1, agentInfo: { name: 'echo', version: '1' }, agentCapabilities: {} } });
  if (m.method === 'session/new') return out({ id: m.id, result: { sessionId: 's1' } });
  if (m.method !== 'session/prompt') return;
  out({ method: 'session/update', params: { sessionId: 's1', update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: m.params.prompt.map((block) => block.text).join('') } } } });
  out({ id: m.id, result: { stopReason: 'end_turn' } });
};
let rest = '';
process.stdin.on('data', (part) => { rest += part; let at; while ((at = rest.indexOf('\\n')) >= 0) { const line = rest.slice(0, at); rest = rest.slice(at + 1); handle(JSON.parse(line)); } });
process.stdin.on('end', () => process.exit(0));
`;

const CONFIG = `
[sandboxes.default]
pool = 0
[server]
listen = "none"
rate_limit = 0
[webhooks]
allow_cidrs = ["127.0.0.0/8"]
[agents.echo]
command = ["node", "-e", ${JSON.stringify(ECHO)}]
[network]
resolvers = ["${RESOLVER}"]
ask_timeout = "2m"
`;

/** Whoever asks with this key, over the socket: there is no network from here into the daemon's namespace. */
const asking = (cloche, secret) => (method, path, body) => cloche.api(method, path, body, { headers: { Authorization: `Bearer ${secret}` } });

async function people(cloche) {
	const who = {};
	for (const [team, members] of [['ours', { alice: 'admin', bob: 'member' }], ['theirs', { eve: 'admin' }]]) {
		await cloche.get('POST', '/teams', { name: team });
		for (const [name, role] of Object.entries(members)) {
			await cloche.get('PUT', `/teams/${team}/members/${name}`, { role });
			who[name] = asking(cloche, (await cloche.key({ name, team, principal: name })).secret);
			who[name].narrow = async (...scopes) => asking(cloche, (await cloche.key({ name: `${name}-narrow`, team, principal: name, scopes })).secret);
		}
	}
	return who;
}

describe('rights that are somebody else’s', () => {
	let cloche, who;
	before(async () => {
		cloche = await Daemon.start({ config: CONFIG });
		who = await people(cloche);
	});
	after(() => cloche?.stop());

	test('who asks an agent has the rights its run has, or is refused', async () => {
		const made = await who.alice('POST', '/sessions', { agent: 'echo' });
		assert.equal(made.status, 201, String(made.bytes));
		const { id } = made.body.session;
		const talker = await who.bob.narrow('sessions:write');
		const refused = await talker('POST', `/sessions/${id}/turns`, { prompt: 'rm -rf /workspace' });
		assert.equal(refused.status, 403, String(refused.bytes));
		assert.match(refused.body.detail, /belongs to a run that has the scope \S+, which you do not have/);
		assert.equal((await talker('GET', `/sessions/${id}/turns`)).body.items.length, 0, 'nothing was asked');
		// With no more rights than who asks it has, an agent is anybody's of the team.
		const small = (await who.alice('POST', '/sessions', { agent: 'echo', scopes: ['sessions:write'] })).body.session.id;
		const asked = await talker('POST', `/sessions/${small}/turns`, { prompt: 'hello' });
		assert.equal(asked.status, 200, String(asked.bytes));
		assert.equal(asked.body.turn.text ?? asked.body.turn.answer, 'hello', String(asked.bytes));
		const denied = (await cloche.get('GET', '/audit?newest=true&limit=100')).items.find((row) => row.action === 'turn_create' && row.verdict === 'deny');
		assert.equal(denied?.object, id);
		for (const one of [id, small]) assert.equal((await who.alice('POST', `/sessions/${one}/end`, {})).status, 200);
	});

	test('a token that drives a session ends with the key it was asked for with', async () => {
		const { id, ...session } = (await who.alice('POST', '/sessions', { agent: 'echo', scopes: ['sessions:write'] })).body.session;
		assert.ok(session);
		const sandbox = await until(async () => (await who.alice('GET', `/sessions/${id}`)).body.session.sandbox?.sandbox_id, 'it has a sandbox', 30000);
		await until(async () => (await who.alice('GET', `/sessions/${id}`)).body.session.phase === 'idle', 'the agent is there', 30000);
		const drive = (link) => asking(cloche, link.token)('POST', `/sandboxes/${sandbox}/ports/8080/command`, { jsonrpc: '2.0', id: 1, method: 'user_message', params: { content: 'hello' } });
		const link = async (caller) => {
			const answer = await caller('GET', `/sandboxes/${sandbox}/connect`);
			assert.equal(answer.status, 200, String(answer.bytes));
			return answer.body;
		};
		const key = await cloche.key({ name: 'driver', team: 'ours', principal: 'bob' });
		const [bobs, alices] = [await link(asking(cloche, key.secret)), await link(who.alice)];
		for (const one of [bobs, alices]) assert.equal((await drive(one)).status, 200);
		const feed = await cloche.events(`/sandboxes/${sandbox}/ports/8080/events`, { headers: { Authorization: `Bearer ${bobs.token}` } });
		await feed.next();
		await cloche.get('DELETE', `/keys/${key.id}`);
		assert.equal((await drive(bobs)).status, 401);
		assert.equal((await drive({ token: bobs.token.replace(key.id, '-') })).status, 401, 'nor with another name in it');
		const cut = async () => {
			for (;;) if (!(await feed.next(30000))) throw new Error('over');
		};
		await assert.rejects(cut, (error) => !/no event in/.test(error.message));
		feed.close();
		assert.equal((await drive(alices)).status, 200, 'others go on');
		assert.equal((await who.alice('POST', `/sessions/${id}/end`, {})).status, 200);
	});

	test('who may read files is not told what processes were given', async () => {
		const { id } = (await who.alice('POST', '/sandboxes', { visibility: 'team' })).body;
		const reader = await who.bob.narrow('sandboxes:read');
		const { body } = await who.alice('POST', `/sandboxes/${id}/execs`, { shell: 'sleep 100', background: true, env: { API_TOKEN: 'canary-of-alice' } });
		assert.ok(body.id);
		let seen = 0;
		for (const one of (await reader('GET', `/sandboxes/${id}/files/list?path=/proc`)).body.items.filter(({ name }) => /^\d+$/.test(name)))
			for (const path of [`/proc/${one.name}/environ`, `/proc/${one.name}/cmdline`, `/proc/self/root/proc/${one.name}/environ`]) {
				const answer = await reader('GET', `/sandboxes/${id}/files?path=${path}`);
				assert.ok([403, 404].includes(answer.status), `${path}: ${answer.status}`);
				assert.ok(!String(answer.bytes).includes('canary'));
				seen += /tells about processes/.test(answer.body.detail);
			}
		assert.ok(seen > 0);
		const packed = await reader('GET', `/sandboxes/${id}/archive?path=/proc/${body.pid ?? 4}`);
		assert.ok(!String(packed.bytes).includes('canary'));
		assert.equal((await reader('GET', `/sandboxes/${id}/files?path=/etc/passwd`)).status, 200);
		await who.alice('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('webhooks of somebody who left the team are told nothing any more', async () => {
		const got = [];
		const server = http.createServer(async (request, response) => {
			let body = '';
			for await (const part of request) body += part;
			got.push([request.url, JSON.parse(body)]);
			response.end();
		});
		server.listen(0, '127.0.0.1').unref();
		await once(server, 'listening');
		const url = (name) => `http://127.0.0.1:${server.address().port}/${name}`;
		await cloche.get('PUT', '/teams/ours/members/carol', { role: 'member' });
		const carol = asking(cloche, (await cloche.key({ name: 'carol', team: 'ours', principal: 'carol' })).secret);
		for (const [name, caller] of Object.entries({ carol, alice: who.alice })) assert.equal((await caller('POST', '/webhooks', { url: url(name), events: ['environment.*', 'sandbox.*'] })).status, 201);
		const told = (name, id) => until(() => got.some(([path, { data }]) => path === `/${name}` && data.sandbox === id), `${name} is told`, 30000);
		const make = async () => (await who.alice('POST', '/sandboxes', { visibility: 'team' })).body.id;
		const first = await make();
		await told('carol', first);
		assert.equal((await who.alice('DELETE', '/teams/ours/members/carol')).status, 204);
		got.length = 0;
		const second = await make();
		await told('alice', second);
		assert.deepEqual(got.filter(([path, { data }]) => path === '/carol' && data.sandbox === second), []);
		assert.equal((await who.alice('GET', '/webhooks')).body.items.length, 1);
		for (const id of [first, second]) await who.alice('DELETE', `/sandboxes/${id}?force=true`);
		server.close();
	});

	test('what is about the machine is told to the operator’s webhooks alone', async () => {
		const got = [];
		const server = http.createServer(async (request, response) => {
			let body = '';
			for await (const part of request) body += part;
			got.push([request.url, JSON.parse(body).type]);
			response.end();
		});
		server.listen(0, '127.0.0.1').unref();
		await once(server, 'listening');
		const hook = (name) => ({ url: `http://127.0.0.1:${server.address().port}/${name}`, events: ['environment.*'] });
		await cloche.get('PUT', '/teams/default/members/dave', { role: 'admin' });
		const dave = asking(cloche, (await cloche.key({ name: 'dave', team: 'default', principal: 'dave' })).secret);
		assert.equal((await dave('POST', '/webhooks', hook('dave'))).status, 201);
		const own = await cloche.get('POST', '/webhooks', hook('operator'));
		assert.equal((await who.eve('POST', '/environments', { name: 'secret-plans', visibility: 'private' })).status, 201);
		await until(() => got.some(([path]) => path === '/operator'), 'the operator is told', 30000);
		const theirs = (await dave('GET', '/webhooks')).body.items.find((one) => one.url.endsWith('/dave'));
		assert.deepEqual((await dave('GET', `/webhooks/${theirs.id}/deliveries`)).body.items, [], 'nor does it wait');
		assert.deepEqual((await dave('GET', '/events?limit=1000')).body.items.filter((one) => one.kind.startsWith('environment')), []);
		await cloche.get('DELETE', `/webhooks/${own.id}`);
		server.close();
	});
});

describe('answers to questions', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let net, cloche, who;
	before(async () => {
		net = await Internet.start();
		await net.names({ 'other.test': { a: ['93.184.216.35'] } });
		cloche = await Daemon.start({ config: CONFIG, enter: net.enter });
		who = await people(cloche);
	});
	after(async () => {
		await cloche?.stop();
		await net?.stop();
	});
	/** A question that waits, of a sandbox that alice made. */
	async function question(body) {
		const made = await who.alice('POST', '/sandboxes', body);
		assert.equal(made.status, 201, String(made.bytes));
		const exec = await who.alice('POST', `/sandboxes/${made.body.id}/execs`, { shell: `curl -s -m 60 http://other.test/`, background: true });
		assert.equal(exec.status, 201, String(exec.bytes));
		const found = await until(async () => (await cloche.get('GET', '/approvals')).items.find((one) => one.sandbox === made.body.id), 'a question', 30000);
		return { ...found, remove: () => who.alice('DELETE', `/sandboxes/${made.body.id}?force=true`) };
	}

	test('a question one may not see is as one that is not there', async () => {
		const one = await question({ networkMode: 'ask', visibility: 'private' });
		const none = 'ap_00000000000000000000';
		for (const caller of [who.eve, who.bob]) {
			const [hidden, nothing] = [await caller('POST', `/approvals/${one.id}`, { verdict: 'allow' }), await caller('POST', `/approvals/${none}`, { verdict: 'allow' })];
			assert.deepEqual([hidden.status, String(hidden.bytes).replaceAll(one.id, none)], [404, String(nothing.bytes)]);
		}
		assert.deepEqual((await who.eve('GET', '/approvals')).body.items, []);
		await one.remove();
	});

	test('an answer changes no environment that who answers may not change', async () => {
		await cloche.get('POST', '/environments', { name: 'shared', visibility: 'global', level: 'custom', allowedDomains: ['example.test'], mode: 'ask' });
		const before_ = await cloche.get('GET', '/environments/shared');
		const one = await question({ network: before_.id });
		const answer = await who.alice('POST', `/approvals/${one.id}`, { verdict: 'allow', for: 'environment' });
		assert.equal(answer.status, 403, String(answer.bytes));
		assert.match(answer.body.detail, /you may look at this environment, not change it/);
		assert.deepEqual(await cloche.get('GET', '/environments/shared'), before_);
		assert.ok((await cloche.get('GET', '/approvals')).items.some(({ id }) => id === one.id), 'it still waits');
		assert.deepEqual(net.left(), []);
		await one.remove();
	});
});
