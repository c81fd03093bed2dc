// The operations under fault: what to do, and what may have come of it. `prepare` gives what `run`
// needs; `run` answers {status, body} or null when the connection broke; `check` is given the rows
// after everything settled and compares them with what was promised.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { until } from '../integration/lib.mjs';

const promised = (answer) => answer !== null && answer.status < 300;

/** A crash of the keeper may take the sandbox itself: then it must say so. */
function isLost(row, mayLose) {
	return mayLose && row?.state === 'failed' && row.endReason === 'lost';
}

async function running(daemon) {
	return { id: (await daemon.create({ name: 'one' })).id };
}

/** At most one was made; one that was promised is there and works. */
async function checkMade(daemon, rows, answer, mayLose) {
	assert.ok(rows.length <= 1, `one sandbox, not ${rows.length}`);
	if (!promised(answer)) return;
	assert.equal(rows[0]?.id, answer.body.id, 'what was promised is there');
	if (isLost(rows[0], mayLose)) return;
	assert.equal(rows[0].state, 'running');
}

/** Whatever runs takes a command: no sandbox is left that looks alive and is not. */
async function checkUsable(daemon, rows) {
	for (const row of rows) {
		if (row.state !== 'running' || row.labels['cloche/run'] || row.labels.ephemeral) continue; // a run's goes with it
		const answer = await daemon.ask('POST', `/sandboxes/${row.id}/execs`, { shell: 'echo usable' });
		assert.equal(answer?.body?.stdout, 'usable\n', `${row.id} works: ${answer?.status} ${answer?.bytes}\n${daemon.log.slice(-2000)}`);
	}
}

const WAIT = { Prefer: 'wait=50' };
/** Says what came in, and that it came to its end; started twice it would say so. */
const ONCE = 'cat in >> log; sleep 0.1; echo end >> log; cat log';

const tasksOf = async (daemon) => (await daemon.get('GET', '/tasks?limit=1000')).items;

async function finished(daemon, body) {
	const { task } = await daemon.get('POST', '/tasks/run', body, { headers: WAIT });
	assert.equal(task.endReason, 'finished', JSON.stringify(task));
	return task;
}

/** What was acknowledged is there, ends once and says why, and leaves no rights. `wanted`: a row a
 * run, oldest first; the first `least` must be there. */
async function checkRuns(daemon, id, wanted, mayLose, least = wanted.length) {
	let runs;
	await until(async () => {
		runs = (await daemon.get('GET', `/tasks/${id}/runs`)).items.toSorted((a, b) => a.number - b.number);
		return runs.every((run) => ['completed', 'failed', 'cancelled'].includes(run.status));
	}, `the task ends: ${id}`, 75000);
	assert.ok(runs.length >= least && runs.length <= wanted.length, `${least} to ${wanted.length} runs, not ${runs.length}`);
	runs = await Promise.all(runs.map(async (run) => (await daemon.get('GET', `/tasks/${id}/runs/${run.id}`)).run));
	for (const [i, run] of runs.entries()) {
		const { stdout, end = 'finished', answer = { status: 200 }, mayKill } = wanted[i];
		// as with a command: output that the keeper could not write is missing, and said to be
		const isShort = mayLose && run.truncated === true && stdout?.startsWith(run.stdout);
		const isGood = run.endReason === end && (stdout === undefined || run.stdout === stdout || isShort);
		const isHurt = (mayLose || mayKill) && run.status === 'failed' && ['sandbox_lost', 'agent_error', 'start_failed'].includes(run.endReason);
		// an agent whose start the store did not take is killed, and not started twice
		const isRefused = run.endReason === 'start_failed' && (!promised(answer) || /^store/.test(run.detail));
		assert.ok(isGood || isHurt || isRefused, JSON.stringify(run));
		if (run.token) assert.ok(run.tokenRevokedAt, 'its credential is revoked');
	}
	const { items } = await daemon.get('GET', `/tasks/${id}/events?limit=1000`);
	assert.deepEqual(items.map((one) => one.taskSeq), items.map((_, i) => i + 1), 'no gap');
	assert.equal(items.filter((one) => /^task\.(completed|failed|cancelled)$/.test(one.kind)).length, runs.length, 'one end each');
	return runs;
}

/** Sandboxes of runs that are over are gone. */
async function noneLeft(daemon) {
	const own = async () => (await daemon.get('GET', '/sandboxes?limit=1000')).items.filter((one) => one.labels['cloche/run']);
	await until(async () => (await own()).length === 0, 'its sandbox is gone', 75000);
}

/** A command over a conversation of the command line: {status, body} when it heard of its end. */
async function converse(daemon, verb, script) {
	const END = 7; // no status the command line has itself
	const { code, stdout, stderr } = await daemon.cli([...verb, '--', '/bin/sh', '-c', `${script}; exit ${END}`]);
	assert.notEqual(code, 0, 'an end that was not');
	const truncated = /bytes of output are no longer kept/.test(stderr);
	return code === END ? { status: 200, body: { stdout, truncated } } : null;
}

export const operations = {
	create: {
		prepare: async () => ({}),
		run: (daemon) => daemon.ask('POST', '/sandboxes', { name: 'one' }),
		check: (daemon, rows, answer, given, mayLose) => checkMade(daemon, rows, answer, mayLose),
	},
	claim: {
		pool: 2,
		prepare: async (daemon) => {
			await daemon.filled();
			return {};
		},
		run: (daemon) => daemon.ask('POST', '/sandboxes', { labels: { by: 'claim' }, env: { WHO: 'me' } }),
		check: (daemon, rows, answer, given, mayLose) => checkMade(daemon, rows, answer, mayLose),
	},
	bind: {
		pool: 2,
		prepare: async (daemon) => {
			await daemon.filled();
			const folder = path.join(daemon.folder, 'given');
			fs.mkdirSync(folder, { recursive: true });
			fs.writeFileSync(path.join(folder, 'seed'), 'seed\n');
			return { folder };
		},
		run: async (daemon, { folder }) => {
			const { code, stdout } = await daemon.cli(['-o', 'json', 'sandbox', 'create', '--name', 'bound', '-m', '100M', '-v', `${folder}:/mnt`]);
			return code === 0 ? { status: 201, body: JSON.parse(stdout) } : null;
		},
		// all of it or nothing: whoever runs has the name, the limits and the folder
		check: async (daemon, rows, answer, given, mayLose) => {
			await checkMade(daemon, rows, answer, mayLose);
			for (const { id } of rows.filter((row) => row.state === 'running')) {
				const look = 'hostname; cat /etc/hostname /mnt/seed; df -B1 --output=size /dev/shm | tail -1';
				const { stdout } = await daemon.exec(id, look);
				assert.deepEqual(stdout.split(/\s+/), ['bound', 'bound', 'seed', String(25 << 20), '']);
			}
		},
	},
	exec: {
		prepare: running,
		run: (daemon, { id }) => daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'echo done >> /workspace/log; echo said' }),
		check: async (daemon, rows, answer, { id, mayKill }, mayLose) => {
			assert.equal(rows.length, 1);
			const [row] = rows;
			const isKilled = (mayKill || mayLose) && answer?.body?.signal === 9;
			assert.ok(row.state === 'running' || isLost(row, mayLose), `${row.state} ${row.endReason}`);
			const { items } = await daemon.get('GET', `/sandboxes/${id}/execs`);
			assert.ok(items.length <= 1, 'one exec');
			// with its sandbox a command is lost, too, and its answer says so
			if (promised(answer) && !isKilled && !(mayLose && answer.body.reason === 'lost')) {
				const isShort = mayLose && answer.body.truncated && 'said\n'.startsWith(answer.body.stdout);
				assert.ok(answer.body.stdout === 'said\n' || isShort, JSON.stringify(answer.body));
				assert.equal(items.length, 1, 'what was promised is there');
			}
			if (row.state !== 'running') return;
			const { stdout } = await daemon.exec(id, 'sleep 0.2; cat /workspace/log 2>/dev/null; true');
			assert.ok(stdout === 'done\n' || ((!promised(answer) || isKilled) && stdout === ''), `done once: ${JSON.stringify(stdout)}`);
			const execs = async () => (await daemon.get('GET', `/sandboxes/${id}/execs`)).items;
			await until(async () => (await execs()).every((one) => one.state === 'ended'), 'no exec is left as running', 75000);
		},
	},
	// agents leave a trace that would show a second start; `[tasks] resume_most = 0`: nothing is kept
	task: {
		config: '[tasks]\nresume_most = 0\n',
		prepare: async (daemon) => ({ known: new Set((await tasksOf(daemon)).map((one) => one.id)) }),
		run: (daemon) => daemon.ask('POST', '/tasks/run', { instruction: ONCE, timeout: 60000, inputs: [{ path: 'in', content: 'ran\n' }] }, { headers: WAIT }),
		check: async (daemon, rows, answer, { known, ...given }, mayLose) => {
			const made = (await tasksOf(daemon)).filter((one) => !known.has(one.id));
			assert.ok(made.length <= 1, 'one task');
			if (promised(answer)) assert.equal(made[0]?.id, answer.body.task.id, 'what was promised is there');
			for (const { id } of made) await checkRuns(daemon, id, [{ stdout: 'ran\nend\n', answer, ...given }], mayLose);
			await noneLeft(daemon);
		},
	},
	// made, started later: both are acknowledged, and both are there
	'create task': {
		config: '[tasks]\nresume_most = 0\n',
		prepare: async (daemon) => ({ known: new Set((await tasksOf(daemon)).map((one) => one.id)) }),
		run: async (daemon) => {
			const made = await daemon.ask('POST', '/tasks', { instruction: 'echo x' });
			if (!promised(made)) return made;
			const started = await daemon.ask('POST', `/tasks/${made.body.task.id}/runs`, {}, { headers: WAIT });
			return { ...made, started };
		},
		check: async (daemon, rows, answer, { known, ...given }, mayLose) => {
			const made = (await tasksOf(daemon)).filter((one) => !known.has(one.id));
			assert.ok(made.length <= 1, 'one task');
			if (promised(answer)) assert.equal(made[0]?.id, answer.body.task.id, 'what was promised is there');
			const started = answer?.started ?? null;
			for (const { id } of made) await checkRuns(daemon, id, [{ stdout: 'x\n', answer: started, ...given }], mayLose, promised(started) ? 1 : 0);
			await noneLeft(daemon);
		},
	},
	'stop task': {
		config: '[tasks]\nresume_most = 0\n',
		prepare: async (daemon) => {
			const { task } = await daemon.get('POST', '/tasks/run', { instruction: 'echo ran; sleep 300', timeout: 400000 });
			await until(async () => (await daemon.get('GET', `/tasks/${task.id}`)).task.run.step === 'wait', 'it works', 30000);
			return { id: task.id };
		},
		run: (daemon, { id }) => daemon.ask('POST', `/tasks/${id}/stop`, {}, { headers: WAIT }),
		check: async (daemon, rows, answer, { id, ...given }, mayLose) => {
			if (!promised(answer)) await daemon.get('POST', `/tasks/${id}/stop`, {}); // as whoever got no answer does
			const [run] = await checkRuns(daemon, id, [{ end: 'stopped', answer, ...given }], mayLose);
			if (promised(answer) && !mayLose) assert.equal(run.status, 'cancelled', JSON.stringify(run));
			await noneLeft(daemon);
		},
	},
	'retry task': {
		config: '[tasks]\nresume_most = 0\n',
		prepare: async (daemon) => ({ id: (await finished(daemon, { instruction: 'echo x >> log; cat log' })).id }),
		run: (daemon, { id }) => daemon.ask('POST', `/tasks/${id}/runs`, {}, { headers: WAIT }),
		check: async (daemon, rows, answer, { id, ...given }, mayLose) => {
			const again = { stdout: 'x\n', answer, ...given };
			await checkRuns(daemon, id, [{ stdout: 'x\n' }, again], mayLose, promised(answer) ? 2 : 1);
			await noneLeft(daemon);
		},
	},
	// whatever happens to the run that goes on, the files are there for the next, and no line twice
	'resume task': {
		config: '[tasks]\nresume_most = 5\n',
		prepare: async (daemon) => {
			const task = await finished(daemon, { instruction: 'echo x >> log; cat log' });
			daemon.keeping.add(task.id);
			return { id: task.id };
		},
		run: (daemon, { id }) => daemon.ask('POST', `/tasks/${id}/runs`, { resumeFrom: id }, { headers: WAIT }),
		check: async (daemon, rows, answer, { id, ...given }, mayLose) => {
			const again = { stdout: 'x\nx\n', answer, ...given };
			const runs = await checkRuns(daemon, id, [{ stdout: 'x\n' }, again], mayLose, promised(answer) ? 2 : 1);
			const isWhole = runs.length > 1 && runs.at(-1).endReason === 'finished';
			const next = await daemon.ask('POST', `/tasks/${id}/runs`, { resumeFrom: id }, { headers: WAIT });
			const lines = (next?.body?.task?.stdout ?? '').length / 2;
			// one that was lost half-way may have written its line, or not; never two
			if (isWhole) assert.equal(lines, 3, String(next?.bytes));
			else assert.ok(lines === 2 || lines === 3, String(next?.bytes));
			daemon.keeping.clear();
			for (const row of await daemon.kept(id)) await daemon.get('DELETE', `/sandboxes/${row.id}?force=1`);
			await noneLeft(daemon);
		},
	},
	// the conversation of GET /sandboxes/{id}/exec
	attach: {
		prepare: running,
		run: (daemon, { id }) => converse(daemon, ['sandbox', 'exec', id], 'echo done >> /workspace/log; echo said'),
		check: (...all) => operations.exec.check(...all),
	},
	// the conversation of GET /run, from the pool
	run: {
		pool: 2,
		prepare: async (daemon) => {
			await daemon.filled();
			return { parked: daemon.parked() };
		},
		// the rule holds until one of them is gone, which comes after the answer
		run: async (daemon, { parked }) => {
			const answer = await converse(daemon, ['run'], 'echo said');
			await until(() => parked.some((id) => !daemon.parked().includes(id)), 'it is removed', 3000).catch(() => {});
			return answer;
		},
		// whoever heard of its end heard all of it, once; it goes now or when nobody came back for it
		check: async (daemon, rows, answer, given, mayLose) => {
			assert.ok(rows.length <= 1 && rows.every((row) => row.labels.ephemeral), `${rows.length} sandboxes`);
			if (answer && !(mayLose && answer.body.truncated)) assert.equal(answer.body.stdout, 'said\n', 'all of its output');
		},
	},
	write: {
		prepare: async (daemon) => {
			const { id } = await running(daemon);
			await daemon.get('PUT', `/sandboxes/${id}/files?path=/workspace/file`, 'before');
			return { id };
		},
		run: (daemon, { id }) => daemon.ask('PUT', `/sandboxes/${id}/files?path=/workspace/file`, Buffer.alloc(300000, 'a')),
		check: async (daemon, rows, answer, { id }, mayLose) => {
			assert.equal(rows.length, 1);
			if (isLost(rows[0], mayLose)) return;
			assert.equal(rows[0].state, 'running');
			const { bytes } = await daemon.api('GET', `/sandboxes/${id}/files?path=/workspace/file`);
			const isNew = bytes.equals(Buffer.alloc(300000, 'a'));
			assert.ok(isNew || (!promised(answer) && String(bytes) === 'before'), `whole, old or new: ${bytes.length} bytes, answer ${answer?.status}`);
		},
	},
	stop: {
		prepare: running,
		run: (daemon, { id }) => daemon.ask('POST', `/sandboxes/${id}/stop`, { graceMs: 50 }),
		check: async (daemon, rows, answer, given, mayLose) => {
			assert.equal(rows.length, 1);
			const [row] = rows;
			const isRight = row.state === 'stopped' || (!promised(answer) && row.state === 'running') || isLost(row, mayLose);
			assert.ok(isRight, `${answer?.status}: ${row.state} ${row.endReason}`);
		},
	},
	rm: {
		prepare: running,
		run: (daemon, { id }) => daemon.ask('DELETE', `/sandboxes/${id}?force=1`),
		check: async (daemon, rows, answer, given, mayLose) => {
			if (promised(answer)) return assert.deepEqual(rows, [], 'what was removed is gone');
			assert.ok(rows.length === 0 || rows[0].state === 'running' || isLost(rows[0], mayLose), JSON.stringify(rows[0]));
		},
	},
};

/** One operation under one rule: {hits, call}. Throws when something is not as it must be. */
export async function hurt(daemon, name, rule, { mayLose = false, mayKill = false } = {}) {
	const operation = operations[name];
	const given = { ...(await operation.prepare(daemon)), mayKill };
	await daemon.inject(rule);
	const answer = await operation.run(daemon, given);
	const hit = await daemon.calm();
	await daemon.recover();
	const rows = await daemon.assertKnown();
	await operation.check(daemon, rows, answer, given, mayLose);
	await checkUsable(daemon, rows);
	await daemon.clear();
	return { ...hit, answer };
}
