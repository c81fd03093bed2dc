// Tasks: one call, steps, an end with a reason, whatever crashes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, isAlive, sleep, until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 2\n[server]\nlisten = "none"\n[tasks]\nteam_concurrency = 3\norigin_products = ["slack"]\n';
const WAIT = { headers: { Prefer: 'wait=30' } };

/** However it ended, its credential ended with it. */
function checkToken(task) {
	const isOver = ['completed', 'failed', 'cancelled'].includes(task.status);
	if (isOver && task.run?.token) assert.ok(task.run.tokenRevokedAt, `${task.id} ended (${task.endReason}) and has a live credential`);
	return task;
}

async function run(cloche, body, options = WAIT) {
	const answer = await cloche.api('POST', '/tasks/run', typeof body === 'string' ? { instruction: body } : body, options);
	assert.ok(answer.status < 300, `${answer.status} ${answer.bytes}`);
	return checkToken(answer.body.task);
}

const steps = (task) => task.run.steps.map((step) => `${step.step} ${step.status}`);
const ended = async (cloche, id) => {
	const { task } = await cloche.get('GET', `/tasks/${id}`, undefined, WAIT);
	assert.ok(['completed', 'failed', 'cancelled'].includes(task.status), `${task.status} ${JSON.stringify(task.run)}`);
	return checkToken(task);
};

async function refused(cloche, body, status, pattern) {
	const answer = await cloche.api('POST', '/tasks/run', { instruction: 'true', ...body });
	assert.equal(answer.status, status, String(answer.bytes));
	assert.match(answer.body.detail, pattern);
}

/** No sandbox that belongs to a run is left. */
async function assertNoBoxes(cloche) {
	await until(async () => (await cloche.get('GET', '/sandboxes?limit=1000')).items.length === 0, 'its sandboxes are gone');
}

describe('a task', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('runs a script and answers with what came of it', async () => {
		const task = await run(cloche, 'echo out; echo err >&2; cat /proc/self/status | grep -c Name');
		assert.equal(task.status, 'completed');
		assert.equal(task.endReason, 'finished');
		assert.equal(task.exitCode, 0);
		assert.equal(task.stdout, 'out\n1\n');
		assert.equal(task.stderr, 'err\n');
		assert.equal(task.inputTokens, 0);
		assert.equal(task.outputTokens, 0);
		assert.ok(task.createdAt && task.completedAt);
		assert.ok(task.cost >= 0 && task.usage.uptimeMs >= 0);
		assert.deepEqual(steps(task), [
			'token completed',
			'provision completed',
			'sync skipped',
			'agent completed',
			'wait completed',
			'collect completed',
			'cleanup completed',
		]);
		await assertNoBoxes(cloche);
	});

	test('says of its sandbox that it goes before it says its end', async () => {
		const task = await run(cloche, 'true');
		const { items } = await cloche.get('GET', `/sandboxes/${task.run.sandbox}/events`);
		const removing = items.find((event) => event.kind === 'sandbox.removing');
		const completed = (await cloche.get('GET', `/tasks/${task.id}/events`)).items.find((event) => event.kind === 'task.completed');
		assert.ok(removing.seq < completed.seq, `${removing.seq} before ${completed.seq}`);
	});

	test('is pending at once without a wish to wait', async () => {
		const answer = await cloche.api('POST', '/tasks/run', { description: 'echo later', title: 'later' });
		assert.equal(answer.status, 202);
		assert.equal(answer.body.task.status, 'pending');
		assert.equal(answer.body.task.title, 'later');
		assert.equal((await ended(cloche, answer.body.task.id)).stdout, 'later\n');
	});

	test('fails with the status of its agent, output kept', async () => {
		const task = await run(cloche, 'echo so far; exit 7');
		assert.deepEqual([task.status, task.endReason, task.exitCode, task.stdout], ['failed', 'agent_error', 7, 'so far\n']);
		assert.match(task.run.detail, /status 7/);
	});

	test('ends on time', async () => {
		const began = Date.now();
		const task = await run(cloche, { instruction: 'echo first; sleep 60', timeout: 3000 });
		assert.ok(Date.now() - began < 60000, 'before its agent does');
		assert.deepEqual([task.status, task.endReason, task.stdout], ['failed', 'timeout', 'first\n']);
	});

	test('ends when nothing happens in it, not while it works', async () => {
		const idle = await run(cloche, { instruction: 'echo x; sleep 60', idleTimeout: 1500 });
		assert.deepEqual([idle.status, idle.endReason], ['failed', 'idle']);
		const busy = await run(cloche, { instruction: 'end=$(($(date +%s)+4)); while [ $(date +%s) -lt $end ]; do :; done', idleTimeout: 1500 });
		assert.equal(busy.endReason, 'finished');
	});

	test('stops, as often as one likes', async () => {
		const { id } = await run(cloche, 'sleep 60', {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		const first = (await cloche.get('POST', `/tasks/${id}/stop`, { reason: 'enough' }, WAIT)).task;
		assert.deepEqual([first.status, first.endReason, first.run.detail], ['cancelled', 'stopped', 'enough']);
		const second = (await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT)).task;
		assert.deepEqual(second.run, first.run);
		await assertNoBoxes(cloche);
	});

	test('stops at any moment of its life', async () => {
		for (const pause of [0, 1, 2, 5, 10, 20, 40, 80]) {
			const { id } = await run(cloche, 'sleep 60', {});
			await sleep(pause);
			const { task } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
			assert.deepEqual([task.status, task.endReason], ['cancelled', 'stopped'], `after ${pause} ms`);
		}
		await assertNoBoxes(cloche);
	});

	test('gets its inputs', async () => {
		const task = await run(cloche, {
			instruction: 'cat a/b.txt; od -An -tx1 bin; stat -c %a tool',
			inputs: [
				{ path: 'a/b.txt', content: 'héllo\n' },
				{ path: 'bin', contentBase64: Buffer.from([0, 255, 10]).toString('base64') },
				{ path: '/workspace/tool', content: '', mode: '755' },
			],
		});
		assert.equal(task.stdout, 'héllo\n 00 ff 0a\n755\n', JSON.stringify(task.run));
		const bad = await run(cloche, { instruction: 'true', inputs: [{ path: '/proc/x', content: 'x' }] });
		assert.deepEqual([bad.status, bad.endReason], ['failed', 'start_failed']);
		assert.ok(steps(bad).includes('sync failed') && steps(bad).includes('cleanup completed'));
	});

	let beats;
	test('is followed by streams that say that they are there', async () => {
		const { id } = await run(cloche, 'true');
		beats = await Promise.all([`/tasks/${id}/events?after=1000`, '/events?after=1000000'].map(async (route) => {
			const beat = { route, text: '', response: await cloche.stream('GET', route, { headers: { accept: 'text/event-stream' } }) };
			beat.response.on('data', (bytes) => (beat.text += bytes));
			return beat;
		})); // and those below take longer than a beat
	});

	test('keeps long output whole, shows its end', async () => {
		const task = await run(cloche, 'seq 1 60000');
		assert.equal(task.run.truncated, true);
		assert.ok(task.stdout.endsWith('59999\n60000\n'));
		const logs = await cloche.api('GET', `/tasks/${task.id}/logs`);
		assert.equal(String(logs.bytes), Array.from({ length: 60000 }, (_, i) => `${i + 1}\n`).join(''));
	});

	test('is answered about from a slow disk while others are served', async () => {
		const { id, run: { id: of } } = await run(cloche, 'seq 1 60000');
		const file = path.join(cloche.state, 'store', 'runs', `${of}.log`);
		const [bytes, { uid, gid }] = [fs.readFileSync(file), fs.statSync(file)];
		// Whoever opens this waits until somebody writes.
		fs.rmSync(file);
		execFileSync('mkfifo', [file]);
		fs.chownSync(file, uid, gid);
		for (const route of ['', `/runs/${of}`, '/logs']) {
			let isAnswered = false;
			const answer = cloche.api('GET', `/tasks/${id}${route}`).finally(() => (isAnswered = true));
			assert.equal((await cloche.api('GET', '/health')).status, 200, route);
			assert.ok((await cloche.get('GET', '/tasks?limit=1000')).items.some((one) => one.id === id), route);
			assert.equal(isAnswered, false, route);
			await fs.promises.writeFile(file, bytes);
			const text = route === '/logs' ? String((await answer).bytes) : ((await answer).body.task?.run ?? (await answer).body.run).stdout;
			assert.ok(text.endsWith('59999\n60000\n'), route);
		}
		fs.rmSync(file);
		fs.writeFileSync(file, bytes.subarray(0, -1));
		fs.chownSync(file, uid, gid);
		assert.equal((await cloche.get('GET', `/tasks/${id}`)).task.stdout, null, 'damaged');
		assert.equal((await cloche.api('GET', `/tasks/${id}/logs`)).status, 500);
		fs.writeFileSync(file, bytes);
		const all = await Promise.all(Array.from({ length: 12 }, () => cloche.get('GET', `/tasks/${id}`)));
		assert.ok(all.every(({ task }) => task.stdout.endsWith('60000\n')));
	});

	test('keeps what is no text', async () => {
		const task = await run(cloche, "printf '\\377\\000x'");
		assert.equal(Buffer.from(task.stdoutBase64, 'base64').toString('hex'), 'ff0078');
		assert.equal((await cloche.api('GET', `/tasks/${task.id}/logs?stream=stdout`)).bytes.toString('hex'), 'ff0078');
	});

	test('shows its output while it works', async () => {
		const { id } = await run(cloche, 'echo one; sleep 1; echo two', {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		const response = await cloche.stream('GET', `/tasks/${id}/logs?follow=true`);
		let text = '';
		for await (const part of response) text += part;
		assert.equal(text, 'one\ntwo\n');
	});

	test('never shows a secret, in one piece or two', async () => {
		const value = 'correct-horse-battery';
		const token = `ghp_${'a1B2'.repeat(9)}`;
		const script = `printf 'a %s b\\n' "$MY_TOKEN"; printf ${token.slice(0, 9)}; sleep 0.3; printf '${token.slice(9)} c\\n'; printf correct-horse; sleep 0.3; echo -battery`;
		const { id } = await run(cloche, { instruction: script, env: { MY_TOKEN: value } }, {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		let live = '';
		for await (const part of await cloche.stream('GET', `/tasks/${id}/logs?follow=true`)) live += part;
		const task = await ended(cloche, id);
		assert.equal(task.stdout, 'a [REDACTED] b\n[REDACTED] c\n[REDACTED]\n');
		assert.equal(live, task.stdout);
	});

	test('never shows a variable of its environment', async () => {
		await cloche.get('POST', '/environments', { name: 'sealed', level: 'none', variables: { GREETING: 'open-sesame-42' } });
		const task = await run(cloche, { instruction: 'echo "<$GREETING>"; echo "$GREETING" | cut -c1-4', environment: 'sealed' });
		assert.equal(task.stdout, '<[REDACTED]>\nopen\n', JSON.stringify(task.run));
		await cloche.get('DELETE', '/environments/sealed');
	});

	test('has its events, numbered without gaps, and a stream that resumes', async () => {
		const task = await run(cloche, 'true');
		const { items } = await cloche.get('GET', `/tasks/${task.id}/events`);
		assert.deepEqual(items.map((one) => one.taskSeq), items.map((_, i) => i + 1));
		assert.equal(items[0].kind, 'task.created');
		assert.equal(items.at(-1).kind, 'task.completed');
		assert.equal(items.at(-1).data.exitCode, 0);
		assert.ok(items.every((one) => one.task === task.id));
		const stream = await cloche.events(`/tasks/${task.id}/events`, { lastEventId: items.at(-2).taskSeq });
		assert.equal((await stream.next()).event, 'task.completed');
		stream.close();
	});

	test('runs again', async () => {
		const created = await cloche.get('POST', '/tasks', { instruction: 'echo $CLOCHE_RUN' });
		const { id } = created.task;
		assert.equal(created.task.status, 'created');
		const first = (await cloche.get('POST', `/tasks/${id}/runs`, {}, WAIT)).task;
		assert.equal(first.stdout, `${first.run.id}\n`);
		const second = (await cloche.get('POST', `/tasks/${id}/runs`, { timeout: 20000 }, WAIT)).task;
		assert.equal(second.run.number, 2);
		assert.notEqual(second.run.id, first.run.id);
		const { items } = await cloche.get('GET', `/tasks/${id}/runs`);
		assert.deepEqual(items.map((one) => one.id), [first.run.id, second.run.id]);
		assert.equal((await cloche.get('GET', `/tasks/${id}/runs/${first.run.id}`)).run.stdout, first.stdout);
		const busy = await run(cloche, 'sleep 30', {});
		assert.equal((await cloche.api('POST', `/tasks/${busy.id}/runs`, {})).status, 409);
		await cloche.get('POST', `/tasks/${busy.id}/stop`, {}, WAIT);
	});

	test('is made once for one key', async () => {
		const headers = { 'Idempotency-Key': 'once', Prefer: 'wait=20' };
		const one = await cloche.api('POST', '/tasks/run', { instruction: 'echo 1' }, { headers });
		const two = await cloche.api('POST', '/tasks/run', { instruction: 'echo 1' }, { headers });
		assert.equal(two.headers['idempotency-replayed'], 'true');
		assert.equal(two.body.task.id, one.body.task.id);
	});

	test('takes a result while it runs, not after', async () => {
		const { id } = await run(cloche, 'sleep 30', {});
		await cloche.get('PUT', `/tasks/${id}/output`, { output: { answer: 42 } });
		await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
		assert.deepEqual((await cloche.get('GET', `/tasks/${id}/output`)).output, { answer: 42 });
		assert.equal((await cloche.api('PUT', `/tasks/${id}/output`, { output: {} })).status, 409);
		assert.deepEqual((await cloche.get('GET', `/tasks/${id}`)).task.run.output, { answer: 42 });
	});

	test('keeps files, under safe names, within bounds', async () => {
		const task = await run(cloche, 'echo made > x; cloche task artifacts $CLOCHE_TASK --put x');
		assert.equal(task.endReason, 'finished', task.stderr);
		const outside = await cloche.api('POST', `/tasks/${task.id}/artifacts?name=${encodeURIComponent('../../etc/passwd')}`, Buffer.from('hello'), { headers: { 'content-type': 'text/html' } });
		assert.deepEqual([outside.status, outside.body.name, outside.body.size, outside.body.run], [201, 'passwd', 5, null]);
		assert.equal(outside.body.sha256, '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824');
		const { items } = await cloche.get('GET', `/tasks/${task.id}/artifacts`);
		assert.deepEqual(items.map((one) => [one.name, one.run]), [['x', task.run.id], ['passwd', null]]);
		const read = await cloche.api('GET', `/tasks/${task.id}/artifacts/${items[0].id}`);
		assert.equal(String(read.bytes), 'made\n');
		const shown = await cloche.api('GET', `/tasks/${task.id}/artifacts/${outside.body.id}`);
		assert.equal(shown.headers['content-type'], 'application/octet-stream');
		assert.match(shown.headers['content-disposition'], /^attachment/);
		for (const name of ['', '..', 'a/', 'a%0Ab']) assert.equal((await cloche.api('POST', `/tasks/${task.id}/artifacts?name=${name}`, Buffer.from('x'))).status, 400, name);
		assert.equal((await cloche.api('POST', `/tasks/${task.id}/artifacts?name=big`, Buffer.alloc(31 << 20))).status, 413);
		const other = await run(cloche, 'true');
		assert.equal((await cloche.api('GET', `/tasks/${other.id}/artifacts/${items[0].id}`)).status, 404);
		assert.equal((await cloche.api('DELETE', `/tasks/${other.id}/artifacts/${items[0].id}`)).status, 404);
		await cloche.ok(['task', 'artifacts', task.id, '--rm', items[0].id]);
		assert.equal((await cloche.api('GET', `/tasks/${task.id}/artifacts/${items[0].id}`)).status, 404);
		assert.equal((await cloche.get('GET', `/tasks/${task.id}/artifacts`)).items.length, items.length - 1);
	});

	test('is summed up as its receipts are', async () => {
		const task = await run(cloche, 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done');
		const { items } = await cloche.get('GET', '/usage');
		const row = items.find((one) => one.key === task.id);
		assert.ok(Math.abs(row.cost - task.cost) < 1e-9 && Math.abs(row.cpuSeconds - task.usage.cpuSeconds) < 1e-6 && row.runs === 1);
		const total = items.reduce((sum, one) => sum + one.cost, 0);
		for (const by of ['agent', 'key', 'team', 'day']) {
			const rows = (await cloche.get('GET', `/usage?by=${by}`)).items;
			assert.ok(Math.abs(rows.reduce((sum, one) => sum + one.cost, 0) - total) < 1e-9, by);
		}
		assert.equal((await cloche.get('GET', '/usage?by=day')).items.at(-1).key, new Date().toISOString().slice(0, 10));
		const lines = (await cloche.ok(['usage', '--by', 'agent', '--csv'])).trim().split('\n');
		assert.equal(lines[0], 'key,runs,cost,cpuSeconds,sandboxSeconds,memoryByteSeconds,diskByteSeconds,networkBytes,inputTokens,outputTokens,cachedTokens,sandboxes');
		assert.match(lines[1], /^shell,\d+,/);
		assert.equal((await cloche.api('GET', '/usage?by=moon')).status, 400);
	});

	test('waits for its turn; the more urgent comes first', async () => {
		const first = await Promise.all([1, 2, 3].map(() => run(cloche, 'sleep 1.5', {})));
		const low = await run(cloche, { instruction: 'date +%s%N', priority: 1 }, {});
		const high = await run(cloche, { instruction: 'date +%s%N', priority: 9 }, {});
		await sleep(300);
		const states = await Promise.all([...first, low, high].map(async ({ id }) => (await cloche.get('GET', `/tasks/${id}`)).task.status));
		assert.deepEqual(states, ['running', 'running', 'running', 'pending', 'pending']);
		const [a, b] = [await ended(cloche, high.id), await ended(cloche, low.id)];
		assert.ok(a.run.startedAt <= b.run.startedAt, `${a.run.startedAt} ${b.run.startedAt}`);
		await Promise.all(first.map(({ id }) => ended(cloche, id)));
		const queued = await Promise.all([1, 2, 3, 4].map(() => run(cloche, 'sleep 20', {})));
		const stopped = (await cloche.get('POST', `/tasks/${queued[3].id}/stop`, {}, WAIT)).task;
		assert.deepEqual([stopped.status, stopped.run.startedAt, stopped.run.steps], ['cancelled', null, []]);
		await Promise.all(queued.map(({ id }) => cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT)));
	});

	test('refuses what it cannot do, by name', async () => {
		await refused(cloche, { instruction: '' }, 400, /instruction/);
		await refused(cloche, { timeout: 600001 }, 400, /600000/);
		await refused(cloche, { timeout: 1 }, 400, /100/);
		await refused(cloche, { agent: 'none' }, 400, /shell/);
		await refused(cloche, { mode: 'other' }, 400, /background/);
		await refused(cloche, { sandboxRuntime: 'posthog' }, 400, /native/);
		await refused(cloche, { repository: 'a/b' }, 400, /forge/);
		await refused(cloche, { branch: 'main' }, 400, /'branch' needs a repository/);
		await refused(cloche, { inputs: [{ path: 'a/../x', content: 'x' }] }, 400, /'inputs' 1.*'\.\.'/);
		await refused(cloche, { createPr: true }, 400, /repository/);
		await refused(cloche, { model: 'm' }, 400, /no model/);
		await refused(cloche, { scopes: ['nonsense:read'] }, 400, /nonsense/);
		await refused(cloche, { environment: 'nowhere' }, 404, /nowhere/);
		await refused(cloche, { priority: 101 }, 400, /100/);
		await refused(cloche, { inputs: [{ path: 'x', contentBase64: '!!' }] }, 400, /'inputs' 1.*base64/);
		for (const path of ['../x', 'a/../../x', '..']) await refused(cloche, { inputs: [{ path, content: 'x' }] }, 400, /leads out/);
		await refused(cloche, { originProduct: 'other' }, 400, /origin_products/);
		await refused(cloche, { instruction: 'x'.repeat(70000) }, 400, /65536/);
		assert.equal((await run(cloche, { instruction: 'true', originProduct: 'slack', sandboxRuntime: null })).originProduct, 'slack');
		assert.equal((await cloche.api('GET', '/tasks/tsk_00000000000000000000')).status, 404);
	});

	test('ends with a reason when its sandbox goes', async () => {
		const { id } = await run(cloche, 'sleep 60', {});
		let box;
		await until(async () => (box = (await cloche.get('GET', `/tasks/${id}`)).task.run.sandbox), 'it has a sandbox');
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		await cloche.api('DELETE', `/sandboxes/${box}?force=true`);
		const task = await ended(cloche, id);
		assert.deepEqual([task.status, task.endReason], ['failed', 'sandbox_lost']);
	});

	test('ends when its memory is not enough', async () => {
		const task = await run(cloche, { instruction: 'exec tail /dev/zero', limits: { memory: '64M' } });
		assert.deepEqual([task.status, task.endReason], ['failed', 'oom']);
	});

	test('spends no more than it was granted', async () => {
		const task = await run(cloche, { instruction: 'while :; do :; done', budget: 0.00008, timeout: 20000 });
		assert.deepEqual([task.status, task.endReason], ['failed', 'budget'], JSON.stringify(task.run));
		const { items } = await cloche.get('GET', `/tasks/${task.id}/events`);
		assert.ok(items.some((one) => one.kind === 'budget.warning') && items.some((one) => one.kind === 'budget.exhausted'));
	});

	test('has streams that were alive all the while', async () => {
		// One when it opens, one after 15 s: no proxy thinks it dead.
		for (const { route, response } of beats) await until(() => beats.find((one) => one.route === route).text.split('\n').filter((line) => line === ':').length >= 2, route, 40000).finally(() => response.destroy());
	});
});

describe('from inside', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('the command line is there, and is the run', async () => {
		const task = await run(cloche, 'cloche -o json whoami; cloche key list');
		assert.equal(task.exitCode, 77, task.stderr);
		assert.match(task.stderr, /keys:read/);
		const me = JSON.parse(task.stdout);
		assert.equal(me.credential, task.run.token);
		assert.ok(!task.run.scopes.includes('keys:read') && task.run.scopes.includes('task:write'));
	});

	test('a run has what its caller gave it, and its children no more', async () => {
		const child = await run(cloche, 'cloche task run --wait "cloche -o json whoami"');
		assert.equal(child.endReason, 'finished', child.stderr);
		assert.notEqual(JSON.parse(child.stdout).credential, child.run.token);
		const narrow = await run(cloche, { instruction: 'cloche task list >/dev/null && cloche sandbox list', scopes: ['tasks:read'] });
		assert.deepEqual([narrow.endReason, narrow.exitCode], ['agent_error', 77]);
		assert.match(narrow.stderr, /sandboxes:read/);
		const wider = await run(cloche, {
			instruction: `cloche task run --wait --scope sandboxes:write --scope tasks:read 'cloche sandbox list && cloche sandbox create'`,
			scopes: ['tasks:write', 'sandboxes:read'],
		});
		assert.equal(wider.endReason, 'agent_error');
		const deep = await run(cloche, {
			instruction: 'cloche task run --wait "cloche task run --wait \'cloche task run --wait \\\"cloche task run --wait \\\\\\\"cloche task run --wait true\\\\\\\"\\\"\'"',
		});
		assert.equal(deep.endReason, 'agent_error', JSON.stringify(deep));
		assert.match(deep.stderr, /depth/);
	});

	test('no longer than its caller, no dearer', async () => {
		const late = await run(cloche, { instruction: 'cloche task run --timeout 9m true', timeout: 20000 });
		assert.match(late.stderr, /time/);
		const dear = await run(cloche, { instruction: 'cloche task run --budget 5 true', budget: 1 });
		assert.match(dear.stderr, /budget/);
	});

	test('nothing it makes reaches further than it does', async () => {
		const further = await run(cloche, {
			instruction: 'cloche task run --environment trusted true; cloche sandbox create --network full; cloche sandbox create --allow example.org; cloche sandbox net set $(hostname) --network full; exit 3',
		});
		assert.equal(further.exitCode, 3);
		assert.equal(further.stderr.match(/network: .* is not within/g).length, 3, further.stderr);
		const within = await run(cloche, {
			instruction: 'cloche task run --wait --allow sub.example.org true && cloche task run --wait true && cloche task run --allow example.net true',
			extraDomains: ['*.example.org'],
		});
		assert.match(within.stderr, /example.net.* is not within/);
		assert.equal(within.stderr.match(/is not within/g).length, 1);
	});

	test('no sandbox but its own works for it', async () => {
		const wide = await cloche.create({ allow: ['example.org'] });
		const same = await cloche.create();
		const task = await run(cloche, `cloche sandbox exec ${same.id} -- echo bad; cloche sandbox exec ${wide.id} -- echo bad; cloche sandbox rm --force ${wide.id}; cloche sandbox list -q; exit 3`);
		assert.equal(task.stdout.trim(), task.run.sandbox);
		assert.equal(task.stderr.match(/no sandbox/g)?.length, 3, task.stderr);
		for (const { id } of [wide, same])
			assert.ok((await cloche.api('DELETE', `/sandboxes/${id}?force=true`)).status < 300);
	});

	test('no variables but those of its own environment', async () => {
		for (const name of ['own-vars', 'other-vars']) await cloche.get('POST', '/environments', { name, level: 'none', visibility: 'team', variables: { CANARY: `of ${name}` } });
		const none = await run(cloche, 'cloche sandbox create --network other-vars; cloche task run --environment other-vars true; exit 3');
		assert.equal(none.stderr.match(/environments: the variables of 'other-vars'/g)?.length, 2, none.stderr);
		const own = await run(cloche, {
			instruction: `cloche task run --wait --environment own-vars 'echo "[\${#CANARY}]"'; cloche task run --environment other-vars true`,
			environment: 'own-vars',
		});
		assert.equal(own.stdout, '[11]\n', own.stderr);
		assert.match(own.stderr, /environments: the variables of 'other-vars'/);
	});

	test('the credential ends with the run', async () => {
		const { id } = await run(cloche, 'sleep 60', {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
		const { task } = await cloche.get('GET', `/tasks/${id}`);
		assert.equal(task.run.tokenRevokedAt, null);
		const { task: after } = await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT);
		assert.equal(after.run.token, task.run.token);
		assert.ok(after.run.tokenRevokedAt);
	});

	test('a sandbox of nobody has no rights', async () => {
		const { id } = await cloche.create();
		const result = await cloche.exec(id, '/run/cloche/cloche whoami');
		assert.equal(result.exitCode, 77);
		assert.match(result.stderr, /a key is needed/);
		await cloche.api('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('a run does not borrow the rights of another', async () => {
		const wide = await run(cloche, 'sleep 60', {});
		await until(async () => (await cloche.get('GET', `/tasks/${wide.id}`)).task.run.step === 'wait', 'it waits');
		const { sandbox } = (await cloche.get('GET', `/tasks/${wide.id}`)).task.run;
		const narrow = await run(cloche, { instruction: `cloche sandbox exec ${sandbox} -- cloche task run true`, scopes: ['sandboxes:write', 'logs:read'] });
		assert.equal(narrow.endReason, 'agent_error');
		assert.match(narrow.stderr, /no sandbox/);
		await cloche.get('POST', `/tasks/${wide.id}/stop`, {}, WAIT);
	});

	test('nobody sets a label by which sandboxes of runs are known', async () => {
		const answer = await cloche.api('POST', '/sandboxes', { labels: { 'cloche/run': 'rn_x' } });
		assert.equal(answer.status, 400);
	});
});

describe('on the command line', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('a task is run, waited for, listed and shown', async () => {
		const waited = await cloche.cli(['task', 'run', '--wait', 'echo out; echo err >&2; exit 5']);
		assert.deepEqual([waited.code, waited.stdout], [5, 'out\n']);
		assert.match(waited.stderr, /^err\n.*failed \(agent_error\)/);
		const json = await cloche.json(['task', 'run', '--wait', 'echo json', '--title', 'as json', '--label', 'a=b']);
		assert.deepEqual([json.task.status, json.task.stdout, json.task.labels], ['completed', 'json\n', { a: 'b' }]);
		const id = (await cloche.ok(['tasks', 'run', '--detach', 'sleep 0.5; echo done'])).trim();
		assert.match(id, /^tsk_/);
		assert.equal(await cloche.ok(['task', 'logs', '-f', id]).catch(() => ''), 'done\n');
		assert.equal(await cloche.ok(['task', 'wait', id]), 'done\n');
		assert.match(await cloche.ok(['task', 'list']), /as json/);
		assert.match(await cloche.ok(['task', 'get', id]), /cleanup +completed/);
		assert.match(await cloche.ok(['task', 'runs', id]), /completed +finished/);
		assert.match(await cloche.ok(['task', 'events', id]), /task.completed/);
		assert.equal((await cloche.cli(['task', 'retry', '--wait', id])).stdout, 'done\n');
	});

	test('an instruction comes from a file or standard input, inputs from files', async () => {
		const result = await cloche.cli(['task', 'run', '-w', '-', '--input', '/etc/hostname:name'], { input: 'cat name\n' });
		assert.equal(result.code, 0, result.stderr);
		assert.ok(result.stdout.length > 1);
	});

	test('options that exclude each other are refused', async () => {
		for (const args of [['task', 'run', '--wait', '--detach', 'true'], ['run', '-t', '-T', '--', 'true'], ['run', '-i', '-n', '--', 'true']]) {
			const { code, stderr } = await cloche.cli(args);
			assert.equal(code, 125, args.join(' '));
			assert.match(stderr, /exclude each other/);
		}
	});

	test('a task that is stopped says so', async () => {
		const id = (await cloche.ok(['task', 'run', '--detach', 'sleep 60'])).trim();
		const waiting = cloche.cli(['task', 'wait', id]);
		await sleep(300);
		await cloche.ok(['task', 'stop', id]);
		const { code, stderr } = await waiting;
		assert.equal(code, 1);
		assert.match(stderr, /cancelled \(stopped\)/);
		assert.equal((await cloche.cli(['task', 'wait', id, '--timeout', '1s'])).code, 1);
	});
});

describe('kill -9 of the daemon', () => {
	test('at any moment: what was acknowledged ends once, with a reason', async () => {
		const cloche = await Daemon.start({ config: CONFIG });
		try {
			const script = 'echo ran; sleep 0.2; echo end';
			const ids = [];
			for (const pause of [0, 2, 5, 10, 20, 30, 50, 100, 200, 400]) {
				const old = cloche.daemonProcess();
				const answer = await cloche.api('POST', '/tasks/run', { instruction: script });
				if (answer.status === 202) ids.push(answer.body.task.id);
				await sleep(pause);
				cloche.note();
				process.kill(old.pid, 'SIGKILL');
				await until(() => !isAlive(old), 'it is dead');
				await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
			}
			for (const id of ids) {
				const task = await ended(cloche, id);
				assert.deepEqual([task.status, task.endReason, task.stdout], ['completed', 'finished', 'ran\nend\n'], JSON.stringify(task.run));
				const { items } = await cloche.get('GET', `/tasks/${id}/events?limit=1000`);
				assert.deepEqual(items.map((one) => one.taskSeq), items.map((_, i) => i + 1));
				assert.equal(items.filter((one) => one.kind === 'task.completed').length, 1);
			}
			await assertNoBoxes(cloche);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('a stop that was acknowledged is remembered', async () => {
		const cloche = await Daemon.start({ config: CONFIG });
		try {
			const { id } = await run(cloche, 'sleep 60', {});
			await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it waits');
			await cloche.get('POST', `/tasks/${id}/stop`, {});
			process.kill(cloche.daemonProcess().pid, 'SIGKILL');
			await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
			assert.equal((await ended(cloche, id)).endReason, 'stopped');
			await assertNoBoxes(cloche);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});
});

describe('many tasks at once', () => {
	const cloche = withDaemon({ before, after }, { config: '[sandboxes.default]\npool = 2\n[server]\nlisten = "none"\n[tasks]\nteam_concurrency = 100\nconcurrency = 100\n' });
	const [MANY, AT_ONCE, YOUNG_MS] = [40, 16, 1900]; // STARTING_MOST and STARTING_MS in src/task/tasks.c, less what clocks round

	test('begin in the order they came, some at a time', async () => {
		const all = await Promise.all(Array.from({ length: MANY }, () => run(cloche, 'true', {})));
		for (const { id } of all) {
			let task;
			await until(async () => (task = (await cloche.get('GET', `/tasks/${id}`)).task).completedAt, 'it ends', 120000);
			assert.equal(task.endReason, 'finished');
		}
		const items = [];
		for (let cursor = '0'; cursor; ) {
			const page = await cloche.get('GET', `/events?limit=1000&cursor=${cursor}`);
			items.push(...page.items);
			cursor = page.nextCursor;
		}
		const order = (kind) => items.filter((event) => event.kind === kind).map((event) => event.data.run);
		assert.deepEqual(order('task.started'), order('task.created'));
		// by the time it happened: a commit may come later than that of others
		const timeOf = (isOne) => new Map(items.filter(isOne).map((event) => [event.data.run, Date.parse(event.time)]));
		const started = timeOf(({ kind }) => kind === 'task.started');
		const made = timeOf(({ kind, data }) => kind === 'task.step' && data.step === 'provision' && data.status === 'completed');
		for (const at of started.values()) {
			const young = [...started].filter(([id, since]) => since <= at && since > at - YOUNG_MS && !(made.get(id) <= at));
			assert.ok(young.length <= AT_ONCE, `${young.length} at once`);
		}
	});
});
