// The record of who did what: complete, without secrets, and as it was written.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { after, before, describe, test } from 'node:test';

import { Daemon, readAll, run, sleep, until, withDaemon } from './lib.mjs';

describe('audit', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0' });
	const rows = async (query = '') => (await cloche.get('GET', `/audit?limit=1000${query}`)).items;
	const last = async () => (await rows()).at(-1)?.seq ?? 0;

	test('an action is on record with its object, credential and rule', async () => {
		const from = await last();
		const key = await cloche.key({ name: 'ci', scopes: ['sandboxes:write'] });
		const caller = await cloche.as(key.secret);
		const sandbox = await caller.expect(201, 'POST', '/sandboxes', { name: 'seen' });
		await caller.expect(200, 'POST', `/sandboxes/seen/execs`, { argv: ['true'] });
		await caller.expect(200, 'GET', '/sandboxes');
		await caller.expect(403, 'POST', '/keys', { name: 'more' });
		await caller.expect(204, 'DELETE', '/sandboxes/seen?force=1');
		await cloche.get('DELETE', `/keys/${key.id}`);
		const told = (await rows(`&after=${from}`)).map(({ action, object, verdict, rule, credential, source }) => [action, object, verdict, rule, credential, source]);
		assert.deepEqual(told, [
			['key_create', key.id, 'allow', 'keys:write', null, told[0][5]],
			['sandbox_create', sandbox.id, 'allow', 'sandboxes:write', key.id, '127.0.0.1'],
			['exec_create', sandbox.id, 'allow', 'sandboxes:write', key.id, '127.0.0.1'],
			['key_create', null, 'deny', 'keys:write', key.id, '127.0.0.1'],
			['sandbox_remove', sandbox.id, 'allow', 'sandboxes:write', key.id, '127.0.0.1'],
			['key_revoke', key.id, 'allow', 'keys:write', null, told[0][5]],
		]);
		assert.match(told[0][5], /^uid \d+$/);
	});

	test('a run names its sandbox', async () => {
		const from = await last();
		await cloche.ok(['run', '--', 'true']);
		const [row] = await rows(`&after=${from}`);
		assert.equal(row.action, 'run');
		assert.match(row.object, /^sb_/);
	});

	test('a chain of keys is shown', async () => {
		const parent = await cloche.key({ name: 'parent' });
		const child = await (await cloche.as(parent.secret)).expect(201, 'POST', '/keys', { name: 'child' });
		const from = await last();
		const grandchild = await (await cloche.as(child.secret)).expect(201, 'POST', '/keys', { name: 'grandchild' });
		const [row] = await rows(`&after=${from}`);
		assert.equal(row.object, grandchild.id);
		assert.equal(row.credential, child.id);
		assert.equal(row.chain, parent.id);
	});

	test('neither secrets nor content', async () => {
		const canary = `canary-${crypto.randomUUID()}`;
		const key = await cloche.key({ name: 'canary' });
		const caller = await cloche.as(key.secret);
		const sandbox = await caller.expect(201, 'POST', '/sandboxes', { env: { VALUE: canary } });
		await caller.expect(200, 'POST', `/sandboxes/${sandbox.id}/execs`, { shell: `echo ${canary}`, env: { OTHER: canary } });
		await caller.expect(204, 'PUT', `/sandboxes/${sandbox.id}/files?path=/workspace/${canary}`, canary);
		await (await cloche.as(`${key.secret.slice(0, -1)}!`)).expect(401, 'GET', '/me');
		await caller.expect(204, 'DELETE', `/sandboxes/${sandbox.id}?force=1`);
		const text = JSON.stringify(await rows());
		assert.ok(!text.includes(canary));
		assert.ok(!text.includes(key.secret.slice(29, 60)));
	});

	test('a refusal is there for whoever looks, also while it is being written', async () => {
		const caller = await cloche.as((await cloche.key({ name: 'refused', scopes: ['sandboxes:read'] })).secret);
		// what no other write takes along is written after 50 ms
		for (const ms of [46, 48, 49, 50, 51, 52, 53, 54, 56, 58]) {
			const from = await last();
			await caller.expect(403, 'POST', '/sandboxes', {});
			await sleep(ms);
			assert.equal((await rows(`&after=${from}`)).length, 1, `after ${ms} ms`);
		}
	});

	test('a flood is counted, not lost', async () => {
		const key = await cloche.key({ name: 'flood', scopes: ['sandboxes:read'] });
		const caller = await cloche.as(key.secret);
		const from = await last();
		const tries = 150;
		for (let i = 0; i < tries; i++) await caller.expect(403, 'POST', '/sandboxes', {});
		await until(
			async () => {
				const denied = (await rows(`&after=${from}`)).filter(({ verdict }) => verdict === 'deny');
				return denied.reduce((sum, { count }) => sum + count, 0) === tries && denied.length < 60;
			},
			'all of them, in few rows',
			20000,
		);
	});

	test('the record verifies, and is exported with a signature', async () => {
		const check = await cloche.get('GET', '/audit/verify');
		assert.equal(check.ok, true);
		assert.equal(check.bad, null);
		assert.ok(check.rows >= 10);
		const answer = await cloche.stream('GET', '/audit/export');
		assert.equal(answer.statusCode, 200);
		const lines = String(await readAll(answer)).trimEnd().split('\n');
		const { seal } = JSON.parse(lines.pop());
		assert.equal(seal.rows, lines.length);
		assert.equal(JSON.parse(lines.at(-1)).hash, seal.hash);
		const digest = Buffer.from(seal.sha256, 'hex');
		const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(seal.publicKey, 'hex')]);
		const publicKey = crypto.createPublicKey({ key: spki, format: 'der', type: 'spki' });
		assert.ok(crypto.verify(null, digest, publicKey, Buffer.from(seal.signature, 'hex')));
		const hash = crypto.createHash('sha256').update(lines.map((line) => `${line}\n`).join(''));
		assert.equal(hash.digest('hex'), seal.sha256);
	});

	test('an admin sees what the own team did', async () => {
		await cloche.get('POST', '/teams', { name: 'ops' });
		await cloche.get('PUT', '/teams/ops/members/adam', { role: 'admin' });
		const adam = await cloche.as((await cloche.key({ name: 'adam', team: 'ops', principal: 'adam' })).secret);
		await adam.expect(201, 'POST', '/keys', { name: 'mine' });
		const seen = (await adam.expect(200, 'GET', '/audit')).items;
		assert.ok(seen.length >= 1);
		assert.ok(seen.every(({ actorName }) => actorName === 'adam'));
		await adam.expect(403, 'GET', '/audit/verify');
		await adam.expect(403, 'GET', '/audit/export');
	});

	test('pages go both ways', async () => {
		const all = (await rows()).map(({ seq }) => seq);
		assert.deepEqual(all, Array.from({ length: all.length }, (_, i) => i + 1), 'without gaps');
		const newest = (await cloche.get('GET', '/audit?newest=1&limit=3')).items.map(({ seq }) => seq);
		assert.deepEqual(newest, all.slice(-3).reverse());
		const first = await cloche.get('GET', '/audit?limit=4');
		const second = await cloche.get('GET', `/audit?limit=4&cursor=${first.nextCursor}`);
		assert.deepEqual([...first.items, ...second.items].map(({ seq }) => seq), [1, 2, 3, 4, 5, 6, 7, 8]);
	});
});

const sqlite = async (file, sql) => {
	const script = 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\ndb.executescript(sys.argv[2])\ndb.commit()\ndb.close()\n';
	const result = await run('python3', ['-c', script, file, sql]);
	assert.equal(result.code, 0, result.stderr);
};

describe('a record that was tampered with', () => {
	const changes = {
		edited: "UPDATE audit SET actor_name = 'nobody' WHERE seq = 3",
		removed: 'DELETE FROM audit WHERE seq = 3',
		'removed at the end': 'DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)',
		reordered: 'UPDATE audit SET seq = -1 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = -1',
	};
	for (const [name, sql] of Object.entries(changes))
		test(`is found: ${name}`, async () => {
			const daemon = await Daemon.start();
			try {
				for (let i = 0; i < 6; i++) await daemon.key({ name: `k${i}` });
				assert.equal((await daemon.get('GET', '/audit/verify')).ok, true);
				daemon.child.kill('SIGTERM');
				await daemon.ended;
				await sqlite(`${daemon.state}/store/cloche.db`, sql);
				await daemon.serve();
				const check = await daemon.get('GET', '/audit/verify');
				assert.equal(check.ok, false);
				assert.equal(check.bad.seq, name === 'removed at the end' ? 6 : 3);
			} finally {
				await daemon.stop();
			}
		});
});

describe('a record of which the old rows go', () => {
	const keeping = '[sandboxes.default]\npool = 0\n[audit]\nkeep = "1s"\n';

	test('still proves the rest, and says what went', async () => {
		const daemon = await Daemon.start();
		try {
			for (let i = 0; i < 6; i++) await daemon.key({ name: `k${i}` });
			const before = await daemon.get('GET', '/audit/verify');
			assert.equal(before.pruned, 0);
			daemon.child.kill('SIGTERM');
			await daemon.ended;
			daemon.configure(keeping);
			await daemon.serve();
			const check = await until(async () => {
				const now = await daemon.get('GET', '/audit/verify');
				return now.pruned >= before.rows && now;
			}, 'old rows to go', 30000);
			assert.equal(check.ok, true, JSON.stringify(check));
			const { items } = await daemon.get('GET', '/audit');
			assert.ok(items.every(({ seq }) => seq > before.rows));
			const lines = (await daemon.ok(['audit', 'export'])).trimEnd().split('\n').map((line) => JSON.parse(line));
			assert.ok(lines[0].pruned.rows >= before.rows, 'the export says where it begins');
			assert.match((await daemon.ok(['audit', 'verify'])), /pruned: +\d/);
			const late = await daemon.cli(['audit', 'verify', '--expect', `${before.rows}:${before.hash}`]);
			assert.match(late.stderr, /removed by \[audit\] keep/);
		} finally {
			await daemon.stop();
		}
	});

	test('begins nowhere else than it was cut', async () => {
		const daemon = await Daemon.start();
		try {
			for (let i = 0; i < 6; i++) await daemon.key({ name: `k${i}` });
			assert.equal((await daemon.get('GET', '/audit/verify')).ok, true);
			daemon.child.kill('SIGTERM');
			await daemon.ended;
			await sqlite(`${daemon.state}/store/cloche.db`, "INSERT INTO audit_anchor SELECT 1, seq, hash, hash FROM audit WHERE seq = 3; DELETE FROM audit WHERE seq <= 3");
			await daemon.serve();
			const check = await daemon.get('GET', '/audit/verify');
			assert.equal(check.ok, false);
			assert.match(check.bad.what, /where the record begins/);
		} finally {
			await daemon.stop();
		}
	});
});
