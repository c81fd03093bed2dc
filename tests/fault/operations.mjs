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
		if (row.state !== 'running' || row.labels['cloche/run']) continue; // a run's goes with it
		const answer = await daemon.ask('POST', `/sandboxes/${row.id}/execs`, { shell: 'echo usable' });
		assert.equal(answer?.body?.stdout, 'usable\n', `${row.id} works: ${answer?.status} ${answer?.bytes}\n${daemon.log.slice(-2000)}`);
	}
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
				assert.ok(answer.body.stdout === 'said\n' || isShort, String(answer.bytes));
				assert.equal(items.length, 1, 'what was promised is there');
			}
			if (row.state !== 'running') return;
			const { stdout } = await daemon.exec(id, 'sleep 0.2; cat /workspace/log 2>/dev/null; true');
			assert.ok(stdout === 'done\n' || ((!promised(answer) || isKilled) && stdout === ''), `done once: ${JSON.stringify(stdout)}`);
			const execs = async () => (await daemon.get('GET', `/sandboxes/${id}/execs`)).items;
			await until(async () => (await execs()).every((one) => one.state === 'ended'), 'no exec is left as running', 75000);
		},
	},
	task: {
		prepare: async (daemon) => ({ known: new Set((await daemon.get('GET', '/tasks?limit=1000')).items.map((one) => one.id)) }),
		run: (daemon) => daemon.ask('POST', '/tasks/run', { instruction: 'echo ran; sleep 0.1; echo end', timeout: 60000 }, { headers: { Prefer: 'wait=50' } }),
		// what was acknowledged is there, ends once and says why, and leaves neither sandbox nor rights
		check: async (daemon, rows, answer, { known, mayKill }, mayLose) => {
			const made = async () => (await daemon.get('GET', '/tasks?limit=1000')).items.filter((one) => !known.has(one.id));
			assert.ok((await made()).length <= 1, 'one task');
			if (promised(answer)) assert.equal((await made())[0]?.id, answer.body.task.id, 'what was promised is there');
			for (const { id } of await made()) {
				let task;
				await until(async () => {
					({ task } = await daemon.get('GET', `/tasks/${id}`));
					return ['completed', 'failed', 'cancelled'].includes(task.status);
				}, `the task ends: ${id}`, 75000);
				const isGood = task.endReason === 'finished' && task.stdout === 'ran\nend\n';
				const isHurt = (mayLose || mayKill) && task.status === 'failed' && ['sandbox_lost', 'agent_error', 'start_failed'].includes(task.endReason);
				// an agent whose start the store did not take is killed, and not started twice
				const isRefused = task.endReason === 'start_failed' && (!promised(answer) || /^store/.test(task.run.detail));
				assert.ok(isGood || isHurt || isRefused, JSON.stringify(task));
				if (task.run.token) assert.ok(task.run.tokenRevokedAt, 'its credential is revoked');
				const { items } = await daemon.get('GET', `/tasks/${id}/events?limit=1000`);
				assert.deepEqual(items.map((one) => one.taskSeq), items.map((_, i) => i + 1), 'no gap');
				assert.equal(items.filter((one) => /completed|failed|cancelled/.test(one.kind)).length, 1, 'one end');
			}
			const own = async () => (await daemon.get('GET', '/sandboxes?limit=1000')).items.filter((one) => one.labels['cloche/run']);
			await until(async () => (await own()).length === 0, 'its sandbox is gone', 75000);
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
