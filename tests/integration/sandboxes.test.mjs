// Sandboxes as resources: states, names, labels, pages, time to live.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { isRoot, until, withDaemon } from './lib.mjs';

describe('sandboxes', () => {
	const cloche = withDaemon({ before, after });

	test('create answers with all there is to know', async () => {
		const answer = await cloche.api('POST', '/sandboxes', {
			name: 'full',
			labels: { team: 'ci' },
			env: { TOKEN: 'not-shown' },
			limits: { memory: '256M', pids: 64 },
		});
		assert.equal(answer.status, 201, String(answer.bytes));
		const sandbox = answer.body;
		assert.match(sandbox.id, /^sb_[0-9a-z]{20}$/);
		assert.equal(sandbox.name, 'full');
		assert.equal(sandbox.state, 'running');
		assert.equal(sandbox.runtime, 'native');
		assert.equal(sandbox.image, 'host');
		assert.deepEqual(sandbox.labels, { team: 'ci' });
		assert.deepEqual(sandbox.env, ['TOKEN']);
		assert.ok(!JSON.stringify(sandbox).includes('not-shown'), 'values of variables are never shown');
		assert.equal(sandbox.limits.memory, 256 << 20);
		assert.equal(sandbox.limits.pids, 64);
		assert.equal(sandbox.endedAt, null);
		assert.ok(Array.isArray(sandbox.isolation.degraded));
		if (isRoot) assert.deepEqual(sandbox.isolation.shared, [], 'its uids are its own');
		assert.ok(sandbox.isolation.disk);
		const info = await cloche.get('GET', `/sandboxes/${sandbox.id}`);
		for (const meter of ['cpuSeconds', 'memoryBytes', 'memoryPeakBytes', 'pids', 'diskBytes', 'uptimeMs'])
			assert.equal(typeof info.meters[meter], 'number', meter);
		assert.deepEqual((await cloche.get('GET', '/sandboxes/full')).id, sandbox.id, 'found by name');
		await cloche.get('DELETE', '/sandboxes/full?force=true');
		assert.equal((await cloche.api('GET', '/sandboxes/full')).status, 404);
		assert.equal((await cloche.api('GET', `/sandboxes/${sandbox.id}`)).status, 404);
	});

	test('a name belongs to one', async () => {
		const one = await cloche.create({ name: 'unique' });
		const second = await cloche.api('POST', '/sandboxes', { name: 'unique' });
		assert.equal(second.status, 409);
		assert.equal(second.body.code, 'conflict');
		await cloche.get('PATCH', `/sandboxes/${one.id}`, { name: 'other' });
		const two = await cloche.create({ name: 'unique' });
		await cloche.ok(['sandbox', 'rename', two.id, 'third']);
		assert.equal((await cloche.get('GET', '/sandboxes/third')).id, two.id);
		await cloche.ok(['sandbox', 'rm', '--force', 'other', 'third']);
	});

	test('filters and pages', async () => {
		const made = [];
		for (let i = 0; i < 5; i++) made.push(await cloche.create({ name: `page${i}`, labels: { parity: i % 2 ? 'odd' : 'even' } }));
		const odd = await cloche.get('GET', '/sandboxes?label=parity%3Dodd');
		assert.deepEqual(odd.items.map((one) => one.name).sort(), ['page1', 'page3']);
		const seen = [];
		let cursor = '';
		do {
			const page = await cloche.get('GET', `/sandboxes?limit=2${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
			assert.ok(page.items.length <= 2);
			seen.push(...page.items.map((one) => one.id));
			cursor = page.nextCursor;
		} while (cursor);
		assert.deepEqual(seen.filter((id) => made.some((one) => one.id === id)), made.map((one) => one.id), 'each once, oldest first');
		assert.equal(new Set(seen).size, seen.length);
		await cloche.get('POST', `/sandboxes/${made[0].id}/stop`, { graceMs: 0 });
		const stopped = await cloche.get('GET', '/sandboxes?state=stopped');
		assert.deepEqual(stopped.items.map((one) => one.id), [made[0].id]);
		const labels = async () => (await cloche.get('GET', '/sandboxes/page0')).labels;
		await cloche.ok(['sandbox', 'label', 'page0', 'owner=me', 'stage=draft=1']);
		assert.deepEqual(await labels(), { parity: 'even', owner: 'me', stage: 'draft=1' });
		await cloche.ok(['sandbox', 'label', 'page0', 'owner-', 'stage=']);
		assert.deepEqual(await labels(), { parity: 'even', stage: '' });
		for (const wrong of ['owner-', 'owner', '-', '=x', 'a b=c']) assert.notEqual((await cloche.cli(['sandbox', 'label', 'page0', '--', wrong])).code, 0, wrong);
		assert.deepEqual(await labels(), { parity: 'even', stage: '' });
		const listed = await cloche.json(['sandbox', 'list', '--label', 'parity=even']);
		assert.equal(listed.length, 3);
		for (const one of made) await cloche.get('DELETE', `/sandboxes/${one.id}?force=1`);
	});

	test('stop keeps files, start brings them back', async () => {
		// Files outlive processes only where the disk is one: not with the tmpfs backend.
		const sandbox = await cloche.create({});
		await cloche.exec(sandbox.id, 'echo kept > /workspace/file');
		const stopped = await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, {});
		assert.equal(stopped.state, 'stopped');
		assert.equal(stopped.endReason, 'stopped');
		assert.equal((await cloche.api('POST', `/sandboxes/${sandbox.id}/execs`, { argv: ['true'] })).status, 409);
		const started = await cloche.get('POST', `/sandboxes/${sandbox.id}/start`);
		assert.equal(started.state, 'running');
		const { stdout } = await cloche.exec(sandbox.id, 'cat /workspace/file 2>/dev/null || echo lost');
		if (sandbox.isolation.disk !== 'tmpfs') assert.equal(stdout, 'kept\n');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('whoever one is inside, the root can be walked and listed, and nothing made in it', { skip: !isRoot }, async () => {
		const { id } = await cloche.create();
		for (const again of [false, true]) {
			for (const user of ['root', 'agent', 'nobody']) {
				const seen = await cloche.exec(id, 'ls / && cat /etc/hostname && /usr/bin/env true', { user, cwd: '/' });
				assert.equal(seen.exitCode, 0, `${user}: ${seen.stderr}`);
				assert.match(seen.stdout, /^workspace$/m);
				const wrote = await cloche.exec(id, 'mkdir /made', { user, cwd: '/' });
				assert.notEqual(wrote.exitCode, 0, user);
			}
			if (again) break;
			await cloche.get('POST', `/sandboxes/${id}/stop`);
			await cloche.get('POST', `/sandboxes/${id}/start`);
		}
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('a running one is not removed without force', async () => {
		const sandbox = await cloche.create();
		const refused = await cloche.api('DELETE', `/sandboxes/${sandbox.id}`);
		assert.equal(refused.status, 409);
		assert.equal((await cloche.api('DELETE', `/sandboxes/${sandbox.id}?force=1`)).status, 204);
	});

	test('stop gives processes time, then none', async () => {
		const sandbox = await cloche.create();
		const { id } = await cloche.exec(sandbox.id, 'trap "echo term; exit 3" TERM; echo up; while :; do sleep 0.05; done', { background: true });
		await until(async () => String((await cloche.api('GET', `/sandboxes/${sandbox.id}/execs/${id}/output`)).bytes).includes('up'), 'it runs');
		const start = Date.now();
		await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 60000 });
		assert.ok(Date.now() - start < 60000, 'ends when the last process has');
		const exec = await cloche.get('GET', `/sandboxes/${sandbox.id}/execs/${id}`);
		assert.equal(exec.exitCode, 3);
		const output = await cloche.api('GET', `/sandboxes/${sandbox.id}/execs/${id}/output`);
		assert.match(String(output.bytes), /term/, 'output is there after the end');
		await cloche.get('POST', `/sandboxes/${sandbox.id}/start`);
		const deaf = await cloche.exec(sandbox.id, 'trap "" TERM; echo up; while :; do sleep 0.05; done', { background: true });
		await until(async () => String((await cloche.api('GET', `/sandboxes/${sandbox.id}/execs/${deaf.id}/output`)).bytes).includes('up'), 'it is deaf');
		await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 300 });
		assert.equal((await cloche.get('GET', `/sandboxes/${sandbox.id}/execs/${deaf.id}`)).signal, 9);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('time to live ends it, and can be moved', async () => {
		const short = await cloche.create({ ttl: 1000 });
		assert.ok(short.expiresAt);
		const ended = await cloche.get('GET', `/sandboxes/${short.id}/wait?timeoutMs=5000`);
		assert.equal(ended.state, 'stopped');
		assert.equal(ended.endReason, 'ttl');
		const moved = await cloche.create({ ttl: 60000 });
		await cloche.ok(['sandbox', 'extend', moved.id, '1h']);
		const info = await cloche.get('GET', `/sandboxes/${moved.id}`);
		assert.ok(Date.parse(info.expiresAt) - Date.now() > 3000000);
		await cloche.ok(['sandbox', 'extend', moved.id, 'none']);
		assert.equal((await cloche.get('GET', `/sandboxes/${moved.id}`)).expiresAt, null);
		for (const one of [short, moved]) await cloche.get('DELETE', `/sandboxes/${one.id}?force=1`);
	});

	test('time to live begins when it runs, however long that took', async () => {
		const [zygote] = cloche.processes('cloche:launch');
		const ttl = 1000;
		process.kill(zygote.pid, 'SIGSTOP');
		const making = cloche.create({ ttl });
		try {
			const asked = await until(async () => (await cloche.get('GET', '/sandboxes?state=creating')).items[0], 'it is asked for');
			await until(() => Date.now() > Date.parse(asked.createdAt) + ttl, 'its time would be over');
		} finally {
			process.kill(zygote.pid, 'SIGCONT');
		}
		const late = await making;
		assert.deepEqual([late.state, Date.parse(late.expiresAt) - Date.parse(late.startedAt)], ['running', ttl]);
		const ended = await cloche.get('GET', `/sandboxes/${late.id}/wait?timeoutMs=30000`);
		assert.deepEqual([ended.state, ended.endReason], ['stopped', 'ttl']);
		assert.ok(Date.parse(ended.endedAt) >= Date.parse(late.expiresAt) - 50, `${ended.endedAt} ${late.expiresAt}`); // two clocks
		await cloche.get('DELETE', `/sandboxes/${late.id}`);
	});

	test('wait answers when it ends, or says that it did not', async () => {
		const sandbox = await cloche.create();
		const early = await cloche.api('GET', `/sandboxes/${sandbox.id}/wait?timeoutMs=200`);
		assert.ok(early.status === 504 || early.body.state === 'running');
		const waiting = cloche.get('GET', `/sandboxes/${sandbox.id}/wait?timeoutMs=10000`);
		await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 0 });
		assert.equal((await waiting).state, 'stopped');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}`);
	});

	test('the same Idempotency-Key makes one', async () => {
		const headers = { 'idempotency-key': 'key-1' };
		const first = await cloche.api('POST', '/sandboxes', { name: 'once' }, { headers });
		const second = await cloche.api('POST', '/sandboxes', { name: 'once' }, { headers });
		assert.equal(first.status, 201);
		assert.equal(second.status, 201);
		assert.equal(first.body.id, second.body.id);
		const other = await cloche.api('POST', '/sandboxes', { name: 'twice' }, { headers });
		assert.equal(other.status, 409, 'another body under the same key is refused');
		await cloche.get('DELETE', `/sandboxes/${first.body.id}?force=1`);
	});

	test('concurrent creates with one key make one', async () => {
		const headers = { 'idempotency-key': 'key-2' };
		const answers = await Promise.all(Array.from({ length: 5 }, () => cloche.api('POST', '/sandboxes', {}, { headers })));
		const made = new Set(answers.filter((one) => one.status === 201).map((one) => one.body.id));
		assert.equal(made.size, 1);
		for (const one of answers) assert.ok(one.status === 201 || one.status === 409, String(one.bytes));
		await cloche.get('DELETE', `/sandboxes/${[...made][0]}?force=1`);
	});

	test('the command line follows a whole life', async () => {
		const { id } = await cloche.json(['sandbox', 'create', '--name', 'life', '--memory', '128M', '-l', 'a=b']);
		assert.match(id, /^sb_/);
		assert.match(await cloche.ok(['sandbox', 'list']), /life/);
		assert.equal((await cloche.json(['sandbox', 'info', 'life'])).limits.memory, 128 << 20);
		assert.equal(await cloche.ok(['sandbox', 'exec', 'life', '--', 'echo', 'hello']), 'hello\n');
		assert.equal((await cloche.cli(['sandbox', 'exec', 'life', '--', 'sh', '-c', 'exit 9'])).code, 9);
		await cloche.ok(['sandbox', 'stop', 'life']);
		await cloche.ok(['sandbox', 'start', 'life']);
		await cloche.ok(['sandbox', 'rm', '--force', 'life']);
		assert.equal((await cloche.cli(['sandbox', 'info', 'life'])).code, 66);
	});
});
