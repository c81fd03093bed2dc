// Going on with the files of a run, and results that must fit a schema.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { isAlive, sleep, until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 2\n[sandboxes.memory]\ndisk_backend = "tmpfs"\n[sandboxes.asroot]\nuser = "root"\n[server]\nlisten = "none"\n[tasks]\nresume_most = 3\n';
const WAIT = { headers: { Prefer: 'wait=60' } };

async function run(cloche, body, options = WAIT) {
	const answer = await cloche.api('POST', '/tasks/run', typeof body === 'string' ? { instruction: body } : body, options);
	assert.ok(answer.status < 300, `${answer.status} ${answer.bytes}`);
	return answer.body.task;
}

const again = async (cloche, id, body) => (await cloche.get('POST', `/tasks/${id}/runs`, body, WAIT)).task;
const boxes = async (cloche, query = '') => (await cloche.get('GET', `/sandboxes?limit=1000${query}`)).items;

async function refused(cloche, path, body, status, pattern) {
	const answer = await cloche.api('POST', path, body);
	assert.equal(answer.status, status, String(answer.bytes));
	assert.match(answer.body.detail, pattern);
}

describe('the files of a run', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });
	const counting = 'echo x >> count; wc -l < count; echo "$CLOCHE_RUN" > who';

	test('are there for the next run, with a credential of its own', async () => {
		const first = await run(cloche, counting);
		assert.equal(first.stdout, '1\n', JSON.stringify(first.run));
		const kept = first.run.resume;
		assert.equal(kept.runtime, 'native');
		assert.equal(kept.image, 'host');
		assert.equal(kept.sandbox, first.run.sandbox);
		assert.match(kept.fingerprint, /^[0-9a-f]{32}$/);
		assert.deepEqual([kept.branch, kept.parentRun, kept.usedBy], [null, null, null]);
		const hours = (new Date(kept.expiresAt) - Date.now()) / 3600e3;
		assert.ok(hours > 23.9 && hours <= 24, kept.expiresAt);
		// What is only kept is no sandbox that anybody runs.
		assert.deepEqual(await boxes(cloche), []);
		assert.equal((await boxes(cloche, `&label=${encodeURIComponent(`cloche/run=${first.run.id}`)}`))[0].state, 'stopped');

		const second = await again(cloche, first.id, { resumeFrom: first.run.id });
		assert.equal(second.stdout, '2\n', JSON.stringify(second.run));
		assert.equal(second.run.resumeFrom, first.run.id);
		assert.equal(second.run.resume.parentRun, first.run.id);
		assert.notEqual(second.run.token, first.run.token);
		assert.ok(second.run.tokenRevokedAt);
		assert.match(second.run.steps[1].detail, /files/);
		const old = (await cloche.get('GET', `/tasks/${first.id}/runs/${first.run.id}`)).run;
		assert.equal(old.resume.usedBy, second.run.id);
		await refused(cloche, `/tasks/${first.id}/runs`, { resumeFrom: first.run.id }, 409, new RegExp(second.run.id));
		// Without it the task begins anew.
		assert.equal((await again(cloche, first.id, {})).stdout, '1\n');
	});

	test('are there after a failure, a timeout, a stop and a lost sandbox', async () => {
		const failed = await run(cloche, 'echo a > f; exit 3');
		assert.equal((await run(cloche, { instruction: 'cat f', resumeFrom: failed.run.id })).stdout, 'a\n');
		const late = await run(cloche, { instruction: 'echo b > f; sleep 60', timeout: 3000 });
		assert.equal(late.endReason, 'timeout');
		assert.equal((await run(cloche, { instruction: 'cat f', resumeFrom: late.id })).stdout, 'b\n');

		const lost = await run(cloche, 'echo c > f; sync; sleep 60', {});
		await until(async () => (await cloche.get('GET', `/tasks/${lost.id}`)).task.run.step === 'wait', 'it waits');
		const { run: row } = (await cloche.get('GET', `/tasks/${lost.id}`)).task;
		await until(async () => (await cloche.api('GET', `/sandboxes/${row.sandbox}/files?path=/workspace/f`)).status === 200, 'it wrote');
		await cloche.get('POST', `/sandboxes/${row.sandbox}/stop`, { graceMs: 0 });
		const end = (await cloche.get('GET', `/tasks/${lost.id}`, undefined, WAIT)).task;
		assert.equal(end.endReason, 'sandbox_lost', JSON.stringify(end.run));
		assert.equal((await run(cloche, { instruction: 'cat f', resumeFrom: lost.id })).stdout, 'c\n');

		const stopped = await run(cloche, 'echo d > f; sleep 60', {});
		await until(async () => (await cloche.get('GET', `/tasks/${stopped.id}`)).task.run.step === 'wait', 'it waits');
		const box = (await cloche.get('GET', `/tasks/${stopped.id}`)).task.run.sandbox;
		await until(async () => (await cloche.api('GET', `/sandboxes/${box}/files?path=/workspace/f`)).status === 200, 'it wrote');
		await cloche.get('POST', `/tasks/${stopped.id}/stop`, {}, WAIT);
		assert.equal((await run(cloche, { instruction: 'cat f', resumeFrom: stopped.id })).stdout, 'd\n');
	});

	test('are there after the daemon was killed', async () => {
		const first = await run(cloche, counting);
		const old = cloche.daemonProcess();
		process.kill(old.pid, 'SIGKILL');
		await until(() => !isAlive(old), 'it is gone');
		const second = await run(cloche, { instruction: counting, resumeFrom: first.id });
		assert.equal(second.stdout, '2\n', JSON.stringify(second.run));
	});

	test('wait for a run that waits for its turn, and outlive its stop', async () => {
		const first = await run(cloche, counting);
		const { task } = await cloche.get('POST', `/tasks/${first.id}/runs`, { resumeFrom: first.id });
		const stopped = (await cloche.get('POST', `/tasks/${first.id}/stop`, {}, WAIT)).task;
		assert.ok(['cancelled', 'completed'].includes(stopped.status));
		const third = await again(cloche, first.id, { resumeFrom: task.run.id });
		assert.match(third.stdout, /^[23]\n$/, JSON.stringify(third.run));
	});

	test('are not kept when there are none, or too many', async () => {
		let none;
		// some: what the kernel itself notes on a new disk must come before the files are marked
		for (let i = 0; i < 5; i++) {
			none = await run(cloche, 'true');
			assert.equal(none.run.resume, null, JSON.stringify(none.run));
			assert.equal(none.usage.filesSame, 1);
		}
		await refused(cloche, `/tasks/${none.id}/runs`, { resumeFrom: none.run.id }, 409, /not kept/);
		const made = [];
		for (let i = 0; i < 5; i++) made.push(await run(cloche, `echo ${i} > f`));
		await until(async () => {
			const kept = await Promise.all(made.map(async ({ id }) => (await cloche.get('GET', `/tasks/${id}`)).task.run.resume !== null));
			return JSON.stringify(kept) === '[false,false,true,true,true]';
		}, 'the oldest went');
		await until(async () => (await cloche.api('GET', `/sandboxes/${made[0].run.sandbox}`)).status === 404, 'and its sandbox');
	});

	test('are kept when only what every sandbox has was changed', async () => {
		for (const script of ['echo "10.9.8.7 other" >> /etc/hosts', 'chmod 750 /etc', 'rm /etc/resolv.conf; touch /etc/resolv.conf']) {
			const first = await run(cloche, { instruction: script, profile: 'asroot' });
			assert.ok(first.run.resume, `${script}: ${JSON.stringify(first.run)}`);
		}
		const first = await run(cloche, { instruction: 'echo "10.9.8.7 other" >> /etc/hosts', profile: 'asroot' });
		const next = await run(cloche, { instruction: 'id -u; stat -c %u /etc/hosts', resumeFrom: first.id });
		assert.equal(next.stdout, '0\n0\n', JSON.stringify(next.run));
	});

	test('are kept in memory, where disks are', async () => {
		const first = await run(cloche, { instruction: 'echo one > f; (sleep 300; echo late > f) &', profile: 'memory' });
		assert.equal(first.endReason, 'finished', JSON.stringify(first.run));
		assert.ok(first.run.resume, JSON.stringify(first.run));
		assert.ok(!(await boxes(cloche)).some((box) => box.id === first.run.sandbox), 'no list has it');
		const second = await run(cloche, { instruction: 'cat f; pgrep sleep; echo two > f', resumeFrom: first.id });
		assert.equal(second.stdout, 'one\n', `what it left running is gone: ${JSON.stringify(second.run)}`);
		const old = cloche.daemonProcess();
		process.kill(old.pid, 'SIGKILL');
		await until(() => !isAlive(old), 'it is gone');
		const third = await run(cloche, { instruction: 'cat f; echo three > f', resumeFrom: second.id });
		assert.equal(third.stdout, 'two\n', JSON.stringify(third.run));
		// Without its processes nothing is there, and that is said.
		await cloche.get('POST', `/sandboxes/${third.run.sandbox}/stop`, { graceMs: 0 });
		const last = await run(cloche, { instruction: 'cat f', resumeFrom: third.id });
		assert.equal(last.endReason, 'start_failed');
		assert.match(last.run.detail, /in memory/);
	});

	test('belong to who made them, and to their sandbox', async () => {
		const first = await run(cloche, { instruction: counting, limits: { memory: '256M' } });
		await refused(cloche, '/tasks/run', { instruction: 'true', resumeFrom: first.id, limits: { memory: '512M' } }, 400, /another 'limits'/);
		await refused(cloche, '/tasks/run', { instruction: 'true', resumeFrom: 'rn_00000000000000000000' }, 404, /run/);
		await refused(cloche, '/tasks/run', { instruction: 'true', resumeFrom: first.id, sandboxRuntime: 'vm' }, 400, /native/);
		const other = await run(cloche, 'true');
		await refused(cloche, `/tasks/${other.id}/runs`, { resumeFrom: first.run.id }, 400, /another task/);
		const next = await run(cloche, { instruction: counting, resumeFrom: first.id, limits: { memory: '256M' } });
		assert.equal(next.stdout, '2\n');
		await cloche.ok(['sandbox', 'rm', next.run.sandbox]);
		await refused(cloche, `/tasks/${next.id}/runs`, { resumeFrom: next.run.id }, 404, /sandbox/);
	});

	test('by the command line', async () => {
		const id = (await cloche.ok(['task', 'run', '--detach', counting])).trim();
		await cloche.ok(['task', 'wait', id]);
		assert.equal(await cloche.ok(['task', 'resume', '--wait', id]), '2\n');
		assert.equal(await cloche.ok(['task', 'run', '--wait', '--resume-from', id, counting]), '3\n');
	});
});

describe('a result', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });
	const outputSchema = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'], additionalProperties: false };

	test('that fits is the output', async () => {
		const task = await run(cloche, { instruction: 'echo \'{"n": 7}\' > $CLOCHE_OUTPUT', outputSchema });
		assert.deepEqual([task.endReason, task.run.output], ['finished', { n: 7 }], JSON.stringify(task.run));
		assert.deepEqual((await cloche.get('GET', `/tasks/${task.id}/output`)).output, { n: 7 });
		assert.equal((await cloche.ok(['task', 'output', task.id])).replace(/\s/g, ''), '{"n":7}');
		const plain = await run(cloche, { instruction: 'echo 42 > $CLOCHE_OUTPUT', outputSchema: { type: 'integer' } });
		assert.equal(plain.run.output, 42);
	});

	test('that does not, or is not there, fails the run by name', async () => {
		for (const [script, pattern] of [
			['echo \'{"n": 0, "m": 1}\' > $CLOCHE_OUTPUT', /\/n/],
			['echo nonsense > $CLOCHE_OUTPUT', /the output/],
			['true', /left no output.*CLOCHE_OUTPUT/],
			['head -c 2000000 /dev/zero | tr "\\0" 1 > $CLOCHE_OUTPUT', /1 MiB/],
		]) {
			const task = await run(cloche, { instruction: script, outputSchema });
			assert.deepEqual([task.status, task.endReason, task.exitCode, task.run.output], ['failed', 'bad_output', 0, null], script);
			assert.match(task.run.detail, pattern);
		}
		// Who fails for another reason fails for that one.
		assert.equal((await run(cloche, { instruction: 'exit 2', outputSchema })).endReason, 'agent_error');
	});

	test('that is given is checked when it is', async () => {
		const { id } = await run(cloche, { instruction: 'until [ -e go ]; do sleep 0.05; done', outputSchema, timeout: 30000 }, {});
		const bad = await cloche.api('PUT', `/tasks/${id}/output`, { output: { n: 'x' } });
		assert.equal(bad.status, 400);
		assert.match(bad.body.detail, /\/n/);
		assert.equal((await cloche.get('GET', `/tasks/${id}/output`)).output, null);
		await cloche.get('PUT', `/tasks/${id}/output`, { output: { n: 3 } });
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		const box = (await cloche.get('GET', `/tasks/${id}`)).task.run.sandbox;
		await cloche.cli(['sandbox', 'exec', box, '--', 'touch', '/workspace/go']); // may end with the sandbox
		const task = (await cloche.get('GET', `/tasks/${id}`, undefined, WAIT)).task;
		assert.deepEqual([task.endReason, task.run.output], ['finished', { n: 3 }], JSON.stringify(task.run));
	});

	test('has a schema that can be one', async () => {
		await refused(cloche, '/tasks/run', { instruction: 'true', outputSchema: { type: 'nothing' } }, 400, /outputSchema.*type/);
		await refused(cloche, '/tasks/run', { instruction: 'true', outputSchema: { $ref: 'https://example.com/x' } }, 400, /outputSchema/);
		const dir = mkdtempSync('/tmp/cloche-test-schema-');
		const file = (name, value) => (writeFileSync(join(dir, name), JSON.stringify(value)), join(dir, name));
		const schema = file('schema.json', outputSchema);
		assert.equal(await cloche.ok(['schema', 'check', schema]), 'valid\n');
		assert.equal(await cloche.ok(['schema', 'check', schema, file('good.json', { n: 1 })]), 'valid\n');
		const bad = await cloche.cli(['schema', 'check', schema, file('bad.json', { n: 0 })]);
		assert.equal(bad.code, 1);
		assert.match(bad.stdout, /\/n.*#\/properties\/n\/minimum/);
		const broken = await cloche.cli(['schema', 'check', file('broken.json', { type: 5 })]);
		assert.equal(broken.code, 2);
		assert.match(broken.stderr, /broken\.json.*type/);
		assert.equal(await cloche.ok(['task', 'run', '--wait', '--output-schema', schema, 'echo \'{"n":2}\' > $CLOCHE_OUTPUT; echo done']), 'done\n');
		rmSync(dir, { recursive: true });
	});
});

describe('artifacts', () => {
	const cloche = withDaemon({ before, after }, { config: `${CONFIG}artifact_ttl = "1s"\n` });

	test('go when they are too old', async () => {
		const task = await run(cloche, 'true');
		const made = await cloche.get('POST', `/tasks/${task.id}/artifacts?name=report`, Buffer.from('old'));
		await sleep(1100);
		const old = cloche.daemonProcess();
		process.kill(old.pid, 'SIGKILL'); // the next one looks at once, not in a minute
		await until(async () => (await cloche.get('GET', `/tasks/${task.id}/artifacts`)).items.length === 0, 'it is gone');
		assert.equal((await cloche.api('GET', `/tasks/${task.id}/artifacts/${made.id}`)).status, 404);
		assert.deepEqual(readdirSync(join(cloche.state, 'store', 'runs'), { recursive: true }).filter((name) => String(name).includes(made.id)), []);
	});
});
