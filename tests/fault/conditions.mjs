// Conditions instead of single faults: no space, no descriptors, a daemon that stands still.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { sleep, until } from '../integration/lib.mjs';
import { ERRNO, HurtDaemon } from './lib.mjs';

async function works(daemon, what) {
	const { id } = await daemon.create();
	assert.equal((await daemon.exec(id, 'echo works')).stdout, 'works\n', what);
	await daemon.get('DELETE', `/sandboxes/${id}?force=1`);
}

/** An answer that refuses must say why in words; returns the statuses. */
function reasons(answers) {
	for (const answer of answers)
		if (answer && answer.status >= 400) assert.ok(answer.body?.detail, `${answer.status} without a reason`);
	return answers.map((answer) => answer?.status ?? 'cut');
}

const OVER = ['completed', 'failed', 'cancelled'];

/** The end of a task, whose credential must be gone with it. */
async function taskOver(daemon, id, what) {
	const task = await until(async () => {
		const answer = await daemon.ask('GET', `/tasks/${id}`);
		return OVER.includes(answer?.body?.task?.status) && answer.body.task;
	}, `the task ends: ${what}`, 75000);
	assert.ok(task.endReason, 'it says why');
	if (task.run.token) assert.ok(task.run.tokenRevokedAt, `its credential is revoked: ${what}`);
	const { items } = await daemon.get('GET', `/tasks/${id}/events?limit=1000`);
	assert.deepEqual(items.map((one) => one.taskSeq), items.map((_, i) => i + 1), 'no gap');
	assert.equal(items.filter((one) => /^task\.(completed|failed|cancelled)$/.test(one.kind)).length, 1, 'one end');
	return task;
}

/* --- disk full --- */

function fill(folder) {
	const fd = fs.openSync(path.join(folder, 'filler'), 'a');
	for (let size = 65536; size >= 1; size = Math.floor(size / 16)) {
		const block = Buffer.alloc(size, 1);
		try {
			for (;;) fs.writeSync(fd, block);
		} catch (error) {
			if (error.code !== 'ENOSPC') throw error;
		}
	}
	fs.closeSync(fd);
}

/** Runs in a mount namespace of its own: see fullDisk. */
export async function fullDiskInside() {
	const daemon = new HurtDaemon();
	try {
		const config = fs.readFileSync(path.join(daemon.state, 'config.toml'));
		execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=0710', 'tmpfs', daemon.state]);
		daemon.ownMount = daemon.state;
		// other daemons cannot see this one's files, and would take its id ranges for abandoned
		execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/run']);
		fs.writeFileSync(path.join(daemon.state, 'config.toml'), config);
		await daemon.serve();
		const pid = daemon.daemonProcess().pid;
		const { id } = await daemon.create({ name: 'before' });
		let points = 0;
		for (let round = 0; round < 3; round++) {
			const before = (await daemon.get('POST', '/tasks/run', { instruction: 'sleep 1; echo end', timeout: 60000 })).task;
			await until(async () => (await daemon.get('GET', `/tasks/${before.id}`)).task.run.step === 'wait', 'a task works', 20000);
			fill(daemon.state);
			const answers = await Promise.all([
				...Array.from({ length: 4 }, () => daemon.ask('POST', '/sandboxes', {})),
				daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'echo full' }),
				daemon.ask('PATCH', `/sandboxes/${id}`, { labels: { round: String(round) } }),
				daemon.ask('POST', '/tasks/run', { instruction: 'echo never', timeout: 60000 }),
			]);
			const statuses = reasons(answers);
			points += statuses.length;
			const said = answers[4];
			assert.ok(said?.status !== 200 || said.body.stdout === 'full\n' || said.body.truncated, `what could not be kept is said: ${said?.bytes}`);
			assert.ok(statuses.includes(507), `no space is said: ${statuses} ${answers.map((answer) => answer?.bytes)}`);
			assert.equal((await daemon.get('GET', '/sandboxes/before')).state, 'running', `reading goes on\n${daemon.log.slice(-3000)}`);
			fs.rmSync(path.join(daemon.state, 'filler'));
			await until(async () => (await daemon.ask('POST', '/sandboxes', { name: `after${round}` }))?.status === 201, 'sandboxes can be made again', 20000);
			assert.equal((await daemon.exec(id, 'echo space')).stdout, 'space\n');
			// what was under way ends, and so does whatever was acknowledged
			const ended = await taskOver(daemon, before.id, 'it worked when the disk was full');
			assert.ok(ended.endReason === 'finished' || /space|store|kept/.test(ended.run.detail), JSON.stringify(ended.run));
			if (answers.at(-1)?.status < 300) await taskOver(daemon, answers.at(-1).body.task.id, 'it was acknowledged on a full disk');
			await daemon.assertKnown();
			for (const row of await daemon.rows()) if (row.id !== id) await daemon.get('DELETE', `/sandboxes/${row.id}?force=1`);
		}
		assert.equal(daemon.daemonProcess().pid, pid, 'without a restart');
		await daemon.clear();
		return points;
	} finally {
		await daemon.cli(['stop']).catch(() => {});
		if (daemon.ownMount) execFileSync('umount', ['-l', daemon.ownMount]);
		daemon.ownMount = undefined;
		await daemon.discard();
	}
}

/** A small file system under the state directory, which only a process of ours can see. */
export async function fullDisk(report) {
	const child = spawn('unshare', ['--mount', '--propagation', 'private', process.execPath, fileURLToPath(import.meta.url), 'full-disk'], {
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	let text = '';
	child.stdout.on('data', (part) => (text += part));
	child.stderr.on('data', (part) => (text += part));
	const [code] = await once(child, 'close');
	if (code === 0) report.add('disk full and space again', Number(/points (\d+)/.exec(text)[1]));
	else report.fail('disk full', new Error(text));
}

/* --- no descriptors --- */

const ROLES = ['cloched', 'cloche:broker', 'cloche:launch', 'cloche:tasks', 'cloche-keeper', 'cloche-spawn', 'cloche-shim'];
const ROOMS = Array.from({ length: 12 }, (_, i) => i);

/** The daemon and the broker run out of descriptors, and have some again. */
export async function noDescriptors(report, { rooms = ROOMS, roles = ROLES } = {}) {
	for (const role of roles) {
		const daemon = await HurtDaemon.start();
		const label = `no descriptors for ${role}`;
		let points = 0;
		try {
			await works(daemon, 'before');
			const { id } = await daemon.create();
			const before = daemon.descriptors();
			for (const room of rooms) {
				const { pid } = daemon.daemonProcess();
				await daemon.inject(`fail ${role} descriptor ${room + 1} ${ERRNO.EMFILE} forever`);
				const asked = Array.from({ length: 6 }, (_, i) =>
					i % 2 ? daemon.ask('POST', '/sandboxes', {}) : daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'true' }),
				);
				// with no descriptor left a connection waits until there is one
				await Promise.race([Promise.all(asked), sleep(700)]);
				await daemon.calm();
				points += reasons(await Promise.all(asked)).length;
				assert.equal(daemon.daemonProcess().pid, pid, `it lives\n${daemon.log.slice(-3000)}`);
				const rows = await daemon.assertKnown();
				assert.ok(rows.find((row) => row.id === id && row.state === 'running'), 'the one from before runs');
				for (const row of rows) if (row.id !== id) await daemon.get('DELETE', `/sandboxes/${row.id}?force=1`);
				await works(daemon, 'with descriptors again');
			}
			await until(() => Object.entries(daemon.descriptors()).every(([name, count]) => count <= before[name] + 2), 'no descriptor is lost').catch((error) => {
				throw new Error(`${error.message}: ${JSON.stringify(before)} ${JSON.stringify(daemon.descriptors())}`);
			});
			await daemon.clear();
			await daemon.end();
		} catch (error) {
			report.fail(label, error);
		} finally {
			await daemon.discard();
		}
		report.add(label, points);
	}
}

/* --- a daemon that stands still --- */

/** SIGSTOP for a while: deadlines hold meanwhile, and nothing is done twice afterwards. */
export async function pause(report, { seconds = 60 } = {}) {
	await Promise.all(['cloched', 'cloche:broker'].map((role) => standStill(report, role, seconds)));
}

async function standStill(report, role, seconds) {
	const daemon = await HurtDaemon.start();
	const label = `${role} stands still for ${seconds} s`;
	try {
		const ttl = await daemon.create({ ttl: seconds * 500 });
		const { id } = await daemon.create();
		const ticking = await daemon.exec(id, 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done', { background: true });
		const late = await daemon.exec(id, 'sleep 1000', { background: true, timeoutMs: seconds * 500 });
		const { pid } = daemon.processes(role)[0];
		process.kill(pid, 'SIGSTOP');
		const asked = Array.from({ length: 3 }, (_, i) => daemon.ask('POST', '/sandboxes', { name: `queued${i}` }, { ms: seconds * 1000 + 60000 }));
		await sleep(seconds * 1000);
		process.kill(pid, 'SIGCONT');
		const statuses = reasons(await Promise.all(asked));
		// a daemon that waits for its broker gives up before a minute is over, and says so
		const isAnswer = (status) => status === 201 || (role === 'cloche:broker' && status === 504);
		assert.ok(statuses.every(isAnswer), `who waited is served: ${statuses}`);
		const rows = await daemon.assertKnown();
		const wanted = ['queued0', 'queued1', 'queued2'].filter((name, i) => statuses[i] === 201);
		assert.deepEqual(rows.filter((row) => row.state !== 'failed').map((row) => row.name ?? '').filter(Boolean).sort(), wanted, 'once each');
		const ended = await until(async () => {
			const row = await daemon.get('GET', `/sandboxes/${ttl.id}`);
			return row.state === 'stopped' && row;
		}, 'the time to live is over');
		assert.equal(ended.endReason, 'ttl');
		const exec = await until(async () => {
			const one = await daemon.get('GET', `/sandboxes/${id}/execs/${late.id}`);
			return one.state === 'ended' && one;
		}, 'the command is over');
		assert.equal(exec.reason, 'timeout');
		const { bytes } = await daemon.api('GET', `/sandboxes/${id}/execs/${ticking.id}/output`);
		const ticks = String(bytes).trim().split('\n').map(Number);
		assert.deepEqual(ticks, ticks.map((_, i) => i + 1), 'no gap, no repeat');
		assert.ok(ticks.length > seconds * 4, 'it ticked on meanwhile');
		await daemon.clear();
		await daemon.end();
		report.add(label, 6);
	} catch (error) {
		report.fail(label, error);
	} finally {
		await daemon.discard();
	}
}

/* --- a clock that is set --- */

const DAY = 86400;

/** The clock of the day jumps, with and without a crash: time that passes is none of its business. */
export async function clockSteps(report, { steps = [DAY, -DAY, 400 * DAY, -400 * DAY] } = {}) {
	const daemon = await HurtDaemon.start({ malloc: true, config: '[tasks]\nresume_most = 0\n' });
	const label = 'the clock is set';
	let points = 0;
	try {
		for (const step of steps)
			for (const isKilled of [false, true]) {
				const what = `${step / DAY} days${isKilled ? ' and a crash' : ''}`;
				const { task } = await daemon.get('POST', '/tasks/run', { instruction: 'echo ran >> log; sleep 2; cat log', timeout: 60000 });
				const short = (await daemon.get('POST', '/tasks/run', { instruction: 'sleep 100', timeout: 4000 })).task;
				for (const { id } of [task, short]) await until(async () => (await daemon.get('GET', `/tasks/${id}`)).task.run.step === 'wait', 'it works', 30000);
				await daemon.inject(`clock ${step}`);
				if (isKilled) process.kill(daemon.daemonProcess().pid, 'SIGKILL');
				const said = await until(async () => (await daemon.ask('POST', '/tasks/run', { instruction: 'date +%s', timeout: 60000 }, { headers: { Prefer: 'wait=50' } }).catch(() => null))?.body?.task, 'a task is taken', 30000);
				assert.equal((await taskOver(daemon, said.id, what)).endReason, 'finished', what);
				const off = Date.parse(said.createdAt) / 1000 - Date.now() / 1000 - step;
				assert.ok(Math.abs(off) < 120, `it has the new time: ${off} s off`);
				const end = await taskOver(daemon, task.id, what);
				assert.deepEqual([end.endReason, end.stdout], ['finished', 'ran\n'], `${what}: ${JSON.stringify(end.run)}`);
				const late = await taskOver(daemon, short.id, what);
				assert.equal(late.endReason, 'timeout', `${what}: ${JSON.stringify(late.run)}`);
				await daemon.inject('clock 0');
				points += 3;
				await daemon.recover();
				await daemon.clear();
				if (isKilled) await daemon.again();
			}
		await daemon.end();
	} catch (error) {
		report.fail(label, error);
	} finally {
		await daemon.discard();
	}
	report.add(label, points);
}

if (process.argv[2] === 'full-disk') console.log(`points ${await fullDiskInside()}`);
