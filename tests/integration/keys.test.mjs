// Keys and the TCP listener: who gets in, with what, and how it ends.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { Daemon, isRoot, ordinaryUser, run, until, withDaemon } from './lib.mjs';

// A stream that nobody cuts is looked at after 15 s.
const LOOK_MS = 14000;
const CONFIG = '[sandboxes.default]\npool = 0\n[scopes]\ncontacts = "people we know"\n';

describe('keys', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0', config: CONFIG });

	test('a key opens the API on TCP, and nothing else does', async () => {
		const key = await cloche.key({ name: 'ci' });
		assert.match(key.secret, /^sk_live_[0-9a-z]{20}_[0-9a-z]{52}$/);
		const caller = await cloche.as(key.secret);
		const me = await caller.expect(200, 'GET', '/me');
		assert.equal(me.credential, key.id);
		assert.equal(me.team, 'default');
		assert.equal(me.operator, false);
		const nobody = await cloche.as();
		const refused = await nobody.api('GET', '/sandboxes');
		assert.equal(refused.status, 401);
		assert.match(refused.headers['www-authenticate'], /^Bearer/);
		assert.equal(refused.body.code, 'unauthorized');
		// What is public, and what is not there, says no more to strangers.
		await nobody.expect(200, 'GET', '/health');
		await nobody.expect(401, 'GET', '/nosuch');
		await nobody.expect(401, 'GET', '/version');
		await caller.expect(404, 'GET', '/nosuch');
	});

	test('the secret is told once', async () => {
		const key = await cloche.key({ name: 'once' });
		const again = await cloche.get('GET', `/keys/${key.id}`);
		assert.equal(again.secret, undefined);
		const page = await cloche.get('GET', '/keys');
		assert.ok(!JSON.stringify(page).includes(key.secret.slice(30)));
		// and is nowhere on the disk
		const found = await run('grep', ['-raqF', key.secret.slice(29), cloche.state]);
		assert.equal(found.code, 1, 'the secret is in no file');
	});

	test('wrong keys of every kind get the same answer', async () => {
		const key = await cloche.key({ name: 'twisted' });
		const gone = await cloche.key({ name: 'gone' });
		const short = await cloche.key({ name: 'short', expiresIn: '1s' });
		await cloche.get('DELETE', `/keys/${gone.id}`);
		await new Promise((resolve) => setTimeout(resolve, 1100));
		const last = key.secret.at(-1) === '0' ? '1' : '0';
		const wrong = {
			revoked: gone.secret,
			expired: short.secret,
			'another last character': key.secret.slice(0, -1) + last,
			cut: key.secret.slice(0, -1),
			'of nobody': `sk_live_${'0'.repeat(20)}_${'0'.repeat(52)}`,
			garbage: 'sk_live_',
			'of another kind': 'ghp_aaaaaaaaaaaaaaaa',
			'an id': key.id,
		};
		const answers = new Set();
		for (const secret of Object.values(wrong)) {
			const answer = await (await cloche.as(secret)).api('GET', '/sandboxes');
			answers.add(`${answer.status} ${answer.bytes} ${answer.headers['www-authenticate']}`);
		}
		assert.equal(answers.size, 1, [...answers].join('\n'));
		assert.match([...answers][0], /^401 /);
		for (const header of ['Basic abc', `bearer${key.secret}`, 'Bearer', '']) {
			const answer = await (await cloche.as()).api('GET', '/me', undefined, { headers: { authorization: header } });
			assert.equal(answer.status, 401, header);
		}
	});

	test('a key is narrowed, and a refusal names the missing scope', async () => {
		const key = await cloche.key({ name: 'reader', scopes: ['sandboxes:read'] });
		assert.deepEqual(key.scopes, ['sandboxes:read']);
		const caller = await cloche.as(key.secret);
		await caller.expect(200, 'GET', '/sandboxes');
		const refused = await caller.expect(403, 'POST', '/sandboxes', {});
		assert.match(refused.detail, /sandboxes:write/);
		assert.match((await caller.expect(403, 'GET', '/images')).detail, /images:read/);
		assert.match((await caller.expect(403, 'POST', '/keys', { name: 'more' })).detail, /keys:write/);
	});

	test('presets, defined objects and what is unknown', async () => {
		const readOnly = await cloche.key({ name: 'ro', scopes: 'read_only' });
		assert.ok(readOnly.scopes.every((scope) => scope.endsWith(':read')));
		assert.ok(readOnly.scopes.includes('contacts:read'));
		const contacts = await cloche.key({ name: 'crm', scopes: ['contacts:write'] });
		assert.deepEqual(contacts.scopes, ['contacts:read', 'contacts:write']);
		const unknown = await cloche.api('POST', '/keys', { name: 'x', scopes: ['sandbox:read'] });
		assert.equal(unknown.status, 400);
		assert.match(unknown.body.detail, /did you mean 'sandboxes:read'/);
		const minted = await cloche.api('POST', '/keys', { name: 'x', scopes: ['task:write'] });
		assert.equal(minted.status, 400);
		assert.equal((await cloche.api('POST', '/keys', { name: 'x', scopes: [] })).status, 400);
		const list = await cloche.get('GET', '/scopes');
		assert.ok(list.items.some(({ object }) => object === 'contacts'));
	});

	test('a key made with a key has no more than it, and goes with it', async () => {
		const parent = await cloche.key({ name: 'parent', scopes: ['keys:write', 'sandboxes:read'], expiresIn: '1h' });
		const caller = await cloche.as(parent.secret);
		const child = await caller.expect(201, 'POST', '/keys', { name: 'child', scopes: 'full' });
		assert.deepEqual(child.scopes.toSorted(), ['keys:read', 'keys:write', 'sandboxes:read']);
		assert.deepEqual(child.chain, [parent.id]);
		assert.equal(child.expiresAt, parent.expiresAt);
		assert.match((await caller.expect(403, 'POST', '/keys', { name: 'x', scopes: ['images:read'] })).detail, /images:read/);
		assert.match((await caller.expect(403, 'POST', '/keys', { name: 'x', expiresIn: '2h' })).detail, /expiresIn/);
		await caller.expect(403, 'POST', '/keys', { name: 'x', operator: true });
		const grandchild = await (await cloche.as(child.secret)).expect(201, 'POST', '/keys', { name: 'grandchild' });
		assert.deepEqual(grandchild.chain, [parent.id, child.id]);
		await (await cloche.as(grandchild.secret)).expect(200, 'GET', '/sandboxes');
		await cloche.get('DELETE', `/keys/${parent.id}`);
		for (const { secret } of [parent, child, grandchild]) await (await cloche.as(secret)).expect(401, 'GET', '/sandboxes');
	});

	test('rotating ends the old secret at once and keeps the rest', async () => {
		const key = await cloche.key({ name: 'turning', scopes: ['sandboxes:read'] });
		const old = await cloche.as(key.secret);
		await old.expect(200, 'GET', '/sandboxes');
		const turned = await cloche.get('POST', `/keys/${key.id}/rotate`);
		assert.equal(turned.id, key.id);
		assert.notEqual(turned.secret, key.secret);
		await old.expect(401, 'GET', '/sandboxes');
		await (await cloche.as(turned.secret)).expect(200, 'GET', '/sandboxes');
		await cloche.get('DELETE', `/keys/${key.id}`);
		assert.equal((await cloche.api('POST', `/keys/${key.id}/rotate`)).status, 409);
	});

	test('the last use is noted', async () => {
		const key = await cloche.key({ name: 'used' });
		assert.equal(key.lastUsedAt, null);
		await (await cloche.as(key.secret)).expect(200, 'GET', '/me');
		await until(async () => (await cloche.get('GET', `/keys/${key.id}`)).lastUsedAt !== null, 'the use is stored', 40000);
	});

	test('revoking a key ends what flows with it', async () => {
		const key = await cloche.key({ name: 'streams' });
		const caller = await cloche.as(key.secret);
		const sandbox = await cloche.create();
		const exec = await cloche.exec(sandbox.id, 'while :; do echo x; sleep 0.1; done', { background: true });
		const events = await caller.stream('GET', '/events', { headers: { accept: 'text/event-stream' } });
		assert.equal(events.statusCode, 200);
		events.resume();
		const follow = await caller.stream('GET', `/sandboxes/${sandbox.id}/execs/${exec.id}/output?follow=1`);
		follow.resume();
		const terminal = await caller.attach(`/sandboxes/${sandbox.id}/execs/${exec.id}/attach?readonly=1`);
		const ends = [events, follow].map((response) => new Promise((resolve) => response.on('close', resolve)));
		const terminalEnds = new Promise((resolve) => terminal.socket.on('close', resolve));
		const begun = Date.now();
		await cloche.get('DELETE', `/keys/${key.id}`);
		await Promise.all([...ends, terminalEnds]);
		assert.ok(Date.now() - begun < LOOK_MS, 'cut, not noticed later');
	});

	test('a stream ends when its key does', async () => {
		const key = await cloche.key({ name: 'brief', expiresIn: 1500 });
		const caller = await cloche.as(key.secret);
		const events = await caller.stream('GET', '/events', { headers: { accept: 'text/event-stream' } });
		assert.equal(events.statusCode, 200);
		events.resume();
		const begun = Date.now();
		await new Promise((resolve) => events.on('close', resolve));
		assert.ok(Date.now() - begun < LOOK_MS);
		await caller.expect(401, 'GET', '/me');
	});

	test('a hundred keys below one, and what flows with them, end at once', async () => {
		const parent = await cloche.key({ name: 'root of many' });
		const caller = await cloche.as(parent.secret);
		const children = await Promise.all(Array.from({ length: 100 }, (_, i) => caller.expect(201, 'POST', '/keys', { name: `child ${i}` })));
		const streams = await Promise.all(
			children.map(async ({ secret }) => (await cloche.as(secret)).stream('GET', '/events', { headers: { accept: 'text/event-stream' } })),
		);
		for (const stream of streams) {
			assert.equal(stream.statusCode, 200);
			stream.resume();
		}
		const ends = streams.map((stream) => new Promise((resolve) => stream.on('close', resolve)));
		const begun = Date.now();
		await cloche.get('DELETE', `/keys/${parent.id}`);
		await Promise.all(ends);
		assert.ok(Date.now() - begun < LOOK_MS, `${Date.now() - begun} ms`);
		for (const { secret } of children.slice(0, 5)) await (await cloche.as(secret)).expect(401, 'GET', '/me');
	});

	test('two Authorization headers are one too many', async () => {
		const key = await cloche.key({ name: 'double' });
		const { host, port } = await cloche.tcp();
		const socket = net.connect(port, host);
		socket.write(`GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key.secret}\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n`);
		let text = '';
		for await (const part of socket) text += part;
		assert.match(text, /^HTTP\/1\.1 401 /);
	});

	test('a key in the URL counts for nothing', async () => {
		const key = await cloche.key({ name: 'url' });
		const nobody = await cloche.as();
		await nobody.expect(401, 'GET', `/me?access_token=${key.secret}`);
		await nobody.expect(401, 'GET', `/me?key=${key.secret}`);
	});
});

describe('browsers', () => {
	const cloche = withDaemon({ before, after }, {
		listen: '127.0.0.1:0',
		config: '[sandboxes.default]\npool = 0\n[server]\nhosts = ["box.example.org"]\norigins = ["https://ui.example.org"]\n',
	});
	let caller;
	before(async () => {
		caller = await cloche.as((await cloche.key({ name: 'browser' })).secret);
	});
	const status = async (headers, method = 'GET', body) => (await caller.api(method, '/me', body, { headers })).status;

	test('names that are not ours are refused', async () => {
		assert.equal(await status({ host: 'box.example.org' }), 200);
		assert.equal(await status({ host: 'localhost:1' }), 200);
		assert.equal(await status({ host: 'evil.test' }), 403);
		assert.equal(await status({ host: '127.0.0.1.evil.test' }), 403);
		assert.equal(await status({ host: 'box.example.org.evil.test' }), 403);
	});

	test('pages of other places are refused, with a key too', async () => {
		assert.equal(await status({ origin: 'http://evil.test' }), 403);
		assert.equal(await status({ origin: 'null' }), 403);
		assert.equal(await status({ 'sec-fetch-site': 'cross-site' }), 403);
		assert.equal(await status({ origin: 'https://ui.example.org' }), 200);
		const { host, port } = await cloche.tcp();
		assert.equal(await status({ origin: `http://${host}:${port}` }), 200);
	});

	test('a listed page may ask first, and read the answer', async () => {
		const asked = await caller.api('OPTIONS', '/sandboxes', undefined, {
			headers: { origin: 'https://ui.example.org', 'access-control-request-method': 'POST', authorization: '' },
		});
		assert.equal(asked.status, 204);
		assert.equal(asked.headers['access-control-allow-origin'], 'https://ui.example.org');
		assert.match(asked.headers['access-control-allow-headers'], /Authorization/);
		const foreign = await caller.api('OPTIONS', '/sandboxes', undefined, { headers: { origin: 'http://evil.test', 'access-control-request-method': 'POST' } });
		assert.equal(foreign.status, 403);
		assert.equal(foreign.headers['access-control-allow-origin'], undefined);
	});

	test('a socket from another site is refused', async () => {
		await assert.rejects(
			async () => {
				const { WebSocketClient } = await import('./lib.mjs');
				await WebSocketClient.open(caller.where, '/api/v1/run', { headers: { ...caller.headers, origin: 'http://evil.test' } });
			},
			{ status: 403 },
		);
	});

	test('a page opens a socket with its key among the protocols', async () => {
		const { WebSocketClient } = await import('./lib.mjs');
		const secret = Object.entries(caller.headers).find(([name]) => /authorization/i.test(name))[1].replace('Bearer ', '');
		const open = (key) => WebSocketClient.open(caller.where, '/api/v1/run', { headers: { origin: 'https://ui.example.org', 'sec-websocket-protocol': `cloche.v1, cloche.bearer.${key}` } });
		(await open(secret)).close();
		await assert.rejects(() => open(`${secret.slice(0, -1)}_`), { status: 401 });
	});

	test('answers may be framed and guessed by nobody', async () => {
		const answer = await caller.api('GET', '/me');
		assert.equal(answer.headers['x-content-type-options'], 'nosniff');
		assert.match(answer.headers['content-security-policy'], /frame-ancestors 'none'/);
	});
});

describe('rates', () => {
	const cloche = withDaemon({ before, after }, {
		listen: '127.0.0.1:0',
		config: '[sandboxes.default]\npool = 0\n[server]\nrate_limit = 5\nrate_burst = 10\n',
	});

	test('who asks too often is told when to ask again', async () => {
		const one = await cloche.as((await cloche.key({ name: 'one' })).secret);
		const other = await cloche.as((await cloche.key({ name: 'other' })).secret);
		const answers = await Promise.all(Array.from({ length: 30 }, () => one.api('GET', '/me')));
		const limited = answers.filter(({ status }) => status === 429);
		assert.ok(limited.length >= 10 && limited.length < 25, `${limited.length} limited`);
		assert.match(limited[0].headers['retry-after'], /^[1-9]\d*$/);
		assert.equal(limited[0].body.code, 'limited');
		await other.expect(200, 'GET', '/me');
		await new Promise((resolve) => setTimeout(resolve, 1000 * Number(limited[0].headers['retry-after'])));
		await one.expect(200, 'GET', '/me');
	});

	test('guessing keys is slow', async () => {
		const guess = await cloche.as(`sk_live_${'0'.repeat(20)}_${'0'.repeat(52)}`);
		const answers = await Promise.all(Array.from({ length: 60 }, () => guess.api('GET', '/me')));
		assert.ok(answers.some(({ status }) => status === 429));
		assert.ok(answers.every(({ status }) => status === 429 || status === 401));
	});

	test('the operator on the socket is not limited', async () => {
		const answers = await Promise.all(Array.from({ length: 50 }, () => cloche.api('GET', '/me')));
		assert.ok(answers.every(({ status }) => status === 200));
	});
});

describe('the listener', () => {
	test('the default place being taken is a warning, a chosen one is not', async () => {
		const taken = net.createServer().listen(0, '127.0.0.1');
		await new Promise((resolve) => taken.on('listening', resolve));
		const place = `127.0.0.1:${taken.address().port}`;
		await assert.rejects(Daemon.start({ listen: place }), /listen on 127/);
		await assert.rejects(Daemon.start({ listen: null, config: `[server]\nlisten = "${place}"\n` }), /listen on 127/);
		taken.close();
	});

	test('nothing is sent in the clear beyond this machine unless somebody says so', async () => {
		await assert.rejects(Daemon.start({ listen: '0.0.0.0:0' }), /tls_cert and tls_key/);
		const daemon = await Daemon.start({ listen: '0.0.0.0:0', config: '[sandboxes.default]\npool = 0\n[server]\nplain = true\n' });
		try {
			const { port } = await daemon.tcp();
			const answer = await new Promise((resolve) => http.get({ host: '127.0.0.1', port, path: '/api/v1/health' }, resolve));
			assert.equal(answer.statusCode, 200);
		} finally {
			await daemon.stop();
		}
	});

	test('an ordinary user has it, too, and is the operator', { skip: !isRoot && 'needs root to become somebody else' }, async () => {
		const daemon = await Daemon.start({ user: ordinaryUser, listen: '127.0.0.1:0' });
		try {
			const me = await daemon.json(['whoami']);
			assert.equal(me.operator, true);
			const key = await daemon.json(['key', 'create', 'mine']);
			await (await daemon.as(key.secret)).expect(200, 'GET', '/me');
			await (await daemon.as()).expect(401, 'GET', '/me');
		} finally {
			await daemon.stop();
		}
	});

	test('clients wait while the daemon starts again', async () => {
		const daemon = await Daemon.start({ listen: '127.0.0.1:0' });
		try {
			const caller = await daemon.as((await daemon.key({ name: 'patient' })).secret);
			const { port } = await daemon.tcp();
			process.kill(daemon.daemonProcess().pid, 'SIGKILL');
			// Connections are taken by the broker's queue at once, and answered by the next daemon.
			await until(async () => (await caller.api('GET', '/me').catch(() => ({}))).status === 200, 'an answer');
			assert.equal((await daemon.tcp()).port, port);
		} finally {
			await daemon.stop();
		}
	});
});
