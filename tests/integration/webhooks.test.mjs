// Webhooks: signed, repeated, in order, once by id, and nowhere they must not go.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import dgram from 'node:dgram';
import http from 'node:http';
import { once } from 'node:events';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Webhook } from 'standardwebhooks';

import { Daemon, isAlive, sleep, until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 0\n[server]\nlisten = "none"\n[webhooks]\nallow_cidrs = ["127.0.0.0/8"]\nretry = "200ms"\n';
const WAIT = { headers: { Prefer: 'wait=30' } };

/** As receivers do it, with the library of the standard. */
function verify(secret, headers, body) {
	try {
		return Boolean(new Webhook(secret).verify(body, headers));
	} catch {
		return false;
	}
}

/** Remembers what it was told; `answer` gives the status of each. */
class Receiver {
	static async open(answer = () => 200) {
		const receiver = new Receiver();
		receiver.got = [];
		receiver.server = http.createServer(async (request, response) => {
			let body = '';
			for await (const part of request) body += part;
			const one = { headers: request.headers, body, data: JSON.parse(body), url: request.url, n: receiver.got.length };
			receiver.got.push(one);
			response.writeHead(answer(one), { Location: '/elsewhere' });
			response.end('thanks');
		});
		receiver.server.listen(0, '127.0.0.1').unref(); // a test that fails must not hold the file open
		await once(receiver.server, 'listening');
		receiver.url = `http://127.0.0.1:${receiver.server.address().port}/hook`;
		return receiver;
	}

	close() {
		this.server.closeAllConnections?.();
		this.server.close();
	}
}

const add = (cloche, url, events) => cloche.get('POST', '/webhooks', { url, events });
const run = async (cloche, instruction) => (await cloche.get('POST', '/tasks/run', { instruction }, WAIT)).task;
const deliveries = async (cloche, id, query = '') => (await cloche.get('GET', `/webhooks/${id}/deliveries${query}`)).items;

describe('a webhook', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('is told, signed, of what it asked for and nothing else', async () => {
		const receiver = await Receiver.open();
		const hook = await add(cloche, receiver.url, ['task.completed', 'task.failed']);
		assert.match(hook.secret, /^whsec_/);
		assert.equal((await cloche.get('GET', `/webhooks/${hook.id}`)).secret, undefined);
		const good = await run(cloche, 'true');
		const bad = await run(cloche, 'exit 4');
		await until(() => receiver.got.length >= 2, 'it was told');
		await sleep(300);
		assert.deepEqual(receiver.got.map((one) => one.data.type), ['task.completed', 'task.failed']);
		assert.deepEqual(receiver.got.map((one) => one.data.data.task), [good.id, bad.id]);
		assert.deepEqual(receiver.got.map((one) => one.data.data.exitCode), [0, 4]);
		assert.equal(receiver.got[0].data.data.inputTokens, 0);
		assert.match(receiver.got[1].data.data.error, /status 4/);
		for (const one of receiver.got) assert.ok(verify(hook.secret, one.headers, one.body));
		assert.ok(!verify(hook.secret, receiver.got[0].headers, `${receiver.got[0].body} `));
		const list = await deliveries(cloche, hook.id);
		assert.deepEqual(list.map((one) => [one.state, one.attempts, one.lastStatus]), [['delivered', 1, 200], ['delivered', 1, 200]]);
		assert.deepEqual(await deliveries(cloche, hook.id, `?since=${Date.now() + 1000}`), []);
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		await run(cloche, 'true');
		await sleep(300);
		assert.equal(receiver.got.length, 2);
		receiver.close();
	});

	test('that is down for a while gets it once, by its id', async () => {
		const receiver = await Receiver.open((one) => (one.n < 3 ? 503 : 204));
		const hook = await add(cloche, receiver.url, ['task.completed']);
		await run(cloche, 'true');
		await until(async () => (await deliveries(cloche, hook.id))[0]?.state === 'delivered', 'it is delivered');
		assert.equal(receiver.got.length, 4);
		assert.equal(new Set(receiver.got.map((one) => one.headers['webhook-id'])).size, 1);
		for (const one of receiver.got) assert.ok(verify(hook.secret, one.headers, one.body));
		const [again] = await deliveries(cloche, hook.id);
		await cloche.get('POST', `/webhooks/${hook.id}/deliveries/${again.id}/redeliver`);
		await until(() => receiver.got.length === 5, 'it was told again');
		assert.equal(receiver.got[4].headers['webhook-id'], receiver.got[0].headers['webhook-id']);
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('hears of one task in order, whatever fails between', async () => {
		const receiver = await Receiver.open((one) => (one.n % 3 === 1 ? 500 : 200));
		const hook = await add(cloche, receiver.url, ['task.*']);
		const task = await run(cloche, 'true');
		const { items } = await cloche.get('GET', `/tasks/${task.id}/events`);
		await until(async () => (await deliveries(cloche, hook.id, '?state=delivered')).length === items.length, 'all is delivered');
		const seen = new Map();
		for (const one of receiver.got) seen.set(one.headers['webhook-id'], one.data.data.seq);
		assert.deepEqual([...seen.values()], items.map((one) => one.seq));
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('goes with both secrets while one is replaced', async () => {
		const receiver = await Receiver.open();
		const hook = await add(cloche, receiver.url, ['task.completed']);
		const second = await cloche.get('POST', `/webhooks/${hook.id}/rotate`);
		assert.notEqual(second.secret, hook.secret);
		await cloche.get('POST', `/webhooks/${hook.id}/test`);
		await until(() => receiver.got.length === 1, 'it was told');
		const [one] = receiver.got;
		assert.equal(one.data.type, 'webhook.test');
		assert.ok(verify(hook.secret, one.headers, one.body) && verify(second.secret, one.headers, one.body));
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('is told of budgets and sandboxes, too', async () => {
		const receiver = await Receiver.open();
		const hook = await add(cloche, receiver.url, ['budget.*', 'sandbox.*', 'approval.*']);
		const { task } = await cloche.get('POST', '/tasks/run', { instruction: 'while :; do :; done', budget: 0.0001, timeout: 20000 }, WAIT);
		const box = await cloche.create();
		await cloche.api('DELETE', `/sandboxes/${box.id}?force=true`);
		const types = () => receiver.got.map((one) => one.data.type);
		await until(() => types().includes('budget.exhausted') && types().includes('sandbox.removed'), 'it was told');
		assert.ok(types().includes('budget.warning'));
		const spent = receiver.got.find((one) => one.data.type === 'budget.exhausted');
		assert.equal(spent.data.data.task, task.id);
		assert.ok(receiver.got.every((one) => verify(hook.secret, one.headers, one.body)));
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('follows no redirect', async () => {
		const receiver = await Receiver.open((one) => (one.n === 0 ? 302 : 200));
		const hook = await add(cloche, receiver.url, ['task.completed']);
		await cloche.get('POST', `/webhooks/${hook.id}/test`);
		await until(() => receiver.got.length === 2, 'it was told again');
		assert.deepEqual(receiver.got.map((one) => one.url), ['/hook', '/hook']);
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('refuses what is no address and no event', async () => {
		for (const [body, pattern] of [
			[{ url: 'ftp://x.org', events: ['*'] }, /url/],
			[{ url: 'http://user@x.org/', events: ['*'] }, /url/],
			[{ url: 'http://x.org/a b', events: ['*'] }, /url/],
			[{ url: 'https://x.org', events: ['task.nothing'] }, /task.nothing/],
			[{ url: 'https://x.org', events: [] }, /events/],
		]) {
			const answer = await cloche.api('POST', '/webhooks', body);
			assert.equal(answer.status, 400);
			assert.match(answer.body.detail, pattern);
		}
	});

	test('has a history of thirty days, from whenever one likes', async () => {
		const receiver = await Receiver.open();
		const hook = await add(cloche, receiver.url, ['task.completed']);
		for (let i = 0; i < 4; i++) await cloche.get('POST', `/webhooks/${hook.id}/test`);
		await until(async () => (await deliveries(cloche, hook.id, '?state=delivered')).length === 4, 'all are delivered');
		const list = (await deliveries(cloche, hook.id)).map((one) => one.id);
		const day = 24 * 3600 * 1000;
		const old = Date.now() - 30 * day + 60000;
		cloche.child.kill('SIGTERM');
		await cloche.ended;
		// Days go by. What was not delivered is nobody's history yet.
		const age = (i, ms, state) => `UPDATE deliveries SET created_ms = ${ms}, state = '${state}', next_ms = ${Date.now() + day} WHERE id = '${list[i]}';`;
		const script = 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\ndb.executescript(sys.argv[2])\ndb.commit()\ndb.close()\n';
		const sql = age(0, old - 3 * day, 'delivered') + age(1, old - 3 * day, 'pending') + age(2, old, 'dead');
		execFileSync('python3', ['-c', script, path.join(cloche.state, 'store', 'cloche.db'), sql]);
		await cloche.serve();
		await until(async () => (await deliveries(cloche, hook.id)).length === 3, 'what is older is gone');
		const ids = async (query) => (await deliveries(cloche, hook.id, query)).map((one) => list.indexOf(one.id));
		assert.deepEqual(await ids(''), [1, 2, 3]);
		assert.deepEqual(await ids(`?since=${old}`), [2, 3]);
		assert.deepEqual(await ids(`?since=${old}&state=dead`), [2]);
		assert.deepEqual(await ids(`?since=${old + 1}`), [3]);
		const shown = await cloche.ok(['webhook', 'deliveries', hook.id, '--since', '7d']);
		assert.ok(shown.includes(list[3]) && !shown.includes(list[2]), shown);
		assert.ok((await cloche.ok(['webhook', 'deliveries', hook.id, '--since', '30d'])).includes(list[2]));
		await cloche.get('DELETE', `/webhooks/${hook.id}`);
		receiver.close();
	});

	test('on the command line', async () => {
		const receiver = await Receiver.open();
		const hook = await cloche.json(['webhook', 'add', receiver.url, '--event', 'task.completed']);
		await cloche.ok(['webhooks', 'test', hook.id]);
		await until(() => receiver.got.length === 1, 'it was told');
		await until(async () => /webhook.test.*delivered/.test(await cloche.ok(['webhook', 'deliveries', hook.id])), 'it is listed');
		assert.match(await cloche.ok(['webhook', 'list']), /task.completed/);
		await cloche.ok(['webhook', 'rm', hook.id]);
		receiver.close();
	});
});

describe('addresses of this machine and its neighbours', () => {
	const cloche = withDaemon({ before, after }, { config: '[sandboxes.default]\npool = 0\n[server]\nlisten = "none"\n[webhooks]\nretry = "200ms"\n' });

	test('are not dialled, however they are written', async () => {
		const receiver = await Receiver.open();
		const { port } = receiver.server.address();
		for (const host of ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '2130706433', '0x7f.1', '0.0.0.0', '169.254.169.254', '10.0.0.1']) {
			const hook = await add(cloche, `http://${host}:${port}/`, ['task.completed']);
			await cloche.get('POST', `/webhooks/${hook.id}/test`);
			await until(async () => (await deliveries(cloche, hook.id))[0].attempts > 0, `${host} was tried`);
			const [one] = await deliveries(cloche, hook.id);
			assert.match(one.lastError, /not allowed/, host);
			await cloche.get('DELETE', `/webhooks/${hook.id}`);
		}
		assert.equal(receiver.got.length, 0);
		receiver.close();
	});
});

/** A name server on loopback: every name is at one address, which nobody dials. */
async function nameServer() {
	const socket = dgram.createSocket('udp4');
	socket.on('message', (query, from) => {
		const end = query.indexOf(0, 12) + 5; // name, type and class of the question
		const isA = query.readUInt16BE(end - 4) === 1;
		const answer = Buffer.concat([query.subarray(0, end), isA ? Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34]) : Buffer.alloc(0)]);
		answer.writeUInt16BE(0x8180, 2);
		[1, Number(isA), 0, 0].forEach((count, n) => answer.writeUInt16BE(count, 4 + 2 * n));
		socket.send(answer, from.port, from.address);
	});
	socket.bind(0, '127.0.0.1').unref();
	await once(socket, 'listening');
	return socket;
}

describe('what waits for a person', () => {
	test('is told, and so is the answer, by a receiver that is down at first', async () => {
		const names = await nameServer();
		const cloche = await Daemon.start({ config: `${CONFIG}[network]\nresolvers = ["127.0.0.1:${names.address().port}"]\n` });
		const receiver = await Receiver.open((one) => (one.n < 3 ? 503 : 200));
		try {
			const hook = await add(cloche, receiver.url, ['approval.*']);
			await cloche.get('POST', '/environments', { name: 'asking', mode: 'ask', allowedDomains: ['example.test'] });
			const box = await cloche.create({ network: 'asking' });
			await cloche.get('POST', `/sandboxes/${box.id}/execs`, { shell: 'curl -sm 60 http://other.test/', background: true });
			const question = await until(async () => (await cloche.get('GET', '/approvals')).items.find((one) => one.host === 'other.test'), 'a question waits', 30000);
			await cloche.get('POST', `/approvals/${question.id}`, { verdict: 'deny' });
			const told = () => new Map(receiver.got.map((one) => [one.headers['webhook-id'], one.data.type]));
			await until(async () => (await deliveries(cloche, hook.id, '?state=delivered')).length >= 2, 'both are delivered', 30000);
			assert.deepEqual([...told().values()].slice(0, 2), ['approval.asked', 'approval.answered'], 'one id each, in order, however often it was sent');
			assert.equal(receiver.got.filter((one) => one.headers['webhook-id'] === receiver.got[0].headers['webhook-id']).length, 4);
			assert.ok(receiver.got.every((one) => verify(hook.secret, one.headers, one.body)));
			await cloche.stop();
		} finally {
			names.close();
			receiver.close();
			await cloche.discard();
		}
	});
});

describe('kill -9 of the daemon', () => {
	test('loses no delivery and makes none twice', async () => {
		const cloche = await Daemon.start({ config: CONFIG });
		const receiver = await Receiver.open((one) => (one.n % 2 ? 200 : 500));
		try {
			const hook = await add(cloche, receiver.url, ['task.completed']);
			const ids = [];
			for (const pause of [0, 20, 150, 300]) {
				ids.push((await run(cloche, 'true')).id);
				await sleep(pause);
				const old = cloche.daemonProcess();
				cloche.note();
				process.kill(old.pid, 'SIGKILL');
				await until(() => !isAlive(old), 'it is dead');
				await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
			}
			await until(async () => (await deliveries(cloche, hook.id, '?state=delivered')).length === ids.length, 'all is delivered');
			const list = await deliveries(cloche, hook.id);
			assert.equal(list.length, ids.length);
			assert.deepEqual(list.map((one) => one.subject).sort(), [...ids].sort());
			await cloche.stop();
		} finally {
			receiver.close();
			await cloche.discard();
		}
	});
});
