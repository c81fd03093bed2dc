// The process that stands next to a sandbox: it may do nothing itself, does not wait for anybody,
// and takes everything inside with it when it goes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { allProcesses, commandLine, isAlive, isRoot, ordinaryUser, processInfo, run, sleep, until, withDaemon } from './lib.mjs';

const SYS = { close: 3, execve: 59, openat: 257, mkdirat: 258 };
const ERRNO = { EPERM: 1, ENOENT: 2, EACCES: 13, EROFS: 30 };
const inject = fileURLToPath(new URL('lib/inject.py', import.meta.url));

/** The keeper of a sandbox: it serves run/<id>.sock, and its init is its child. */
function keeperOf(cloche, id) {
	const text = fs.readFileSync(path.join(cloche.state, 'sandboxes', id, 'out', '..', 'keeper'), 'utf8');
	return processInfo(Number(/^pid=(\d+)$/m.exec(text)[1]));
}

const childrenOf = (info) => allProcesses().filter((one) => one.ppid === info.pid);

/** Everything below the keeper, and what its namespace holds. */
function inside(keeper) {
	const [init] = childrenOf(keeper);
	const space = fs.readlinkSync(`/proc/${init.pid}/ns/pid`);
	return allProcesses().filter((info) => {
		try {
			return fs.readlinkSync(`/proc/${info.pid}/ns/pid`) === space;
		} catch {
			return false;
		}
	});
}

const named = (name) => allProcesses().filter((info) => commandLine(info.pid).includes(name));

function suite(cloche, spec) {
	let box;
	before(async () => {
		box = (await cloche.create(spec)).id;
	});
	const exec = (command, more) => cloche.exec(box, command, more);

	test('a command that never reads its input holds up nobody else', { timeout: 60000 }, async () => {
		const { id } = await exec('exec sleep 100', { background: true, stdin: true });
		const flood = cloche.api('POST', `/sandboxes/${box}/execs/${id}/stdin`, Readable.from(Array.from({ length: 64 }, () => Buffer.alloc(1 << 18)))).catch((error) => error);
		await sleep(300);
		for (let i = 0; i < 10; i++) assert.equal((await exec('cat; echo done', { input: 'in' })).stdout, 'indone\n');
		assert.equal((await cloche.get('GET', `/sandboxes/${box}`)).state, 'running');
		await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
		await flood;
	});

	test('a reader that lags holds up its own command and no other', { timeout: 60000 }, async () => {
		const { id } = await exec('yes', { attach: true });
		const socket = await cloche.attach(box, id);
		socket.socket.pause();
		await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).outputBytes > 1 << 19, 'the window fills');
		await sleep(300);
		const before = (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).outputBytes;
		for (let i = 0; i < 10; i++) assert.equal((await exec('head -c 100000 /dev/zero | wc -c')).stdout, '100000\n');
		const since = (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).outputBytes - before;
		assert.ok(since < 4 << 20, `it was held back: ${since} bytes more`);
		socket.socket.destroy();
		await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
		await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state === 'ended', 'it ended');
	});

	test('what forks twice and leaves its session dies with its command', { timeout: 120000 }, async () => {
		const word = `stray-${process.pid}`;
		const script = `(setsid setsid bash -c "exec -a ${word} sleep 1000" > /dev/null 2>&1 &) ; (setsid bash -c "(exec -a ${word} sleep 1000 &) ; exec -a ${word} sleep 1000" > /dev/null 2>&1 &); sleep 1000`;
		for (const end of ['kill', 'timeout']) {
			const { id } = await exec(['bash', '-c', script], { background: true, ...(end === 'timeout' ? { timeoutMs: 5000 } : {}) });
			await until(() => named(word).length >= 3, 'they run');
			if (end === 'kill') await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
			await until(() => named(word).length === 0, `none is left after ${end}`);
			await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).reason === (end === 'kill' ? 'killed' : 'timeout'), 'it says why');
		}
	});

	test('what an ended command left behind can be killed, once', { timeout: 60000 }, async () => {
		const word = `left-${process.pid}`;
		const { id, exitCode } = await exec(['bash', '-c', `(setsid bash -c "exec -a ${word} sleep 1000" > /dev/null 2>&1 &); sleep 0.2`]);
		assert.equal(exitCode, 0);
		await until(() => named(word).length === 1, 'it runs on');
		const route = `/sandboxes/${box}/execs/${id}`;
		assert.equal((await cloche.api('POST', `${route}/kill`)).status, 204);
		await until(() => named(word).length === 0, 'it is gone');
		await until(async () => (await cloche.api('POST', `${route}/kill`)).status === 409, 'nothing is left to kill');
		const row = await cloche.get('GET', route);
		assert.deepEqual([row.exitCode, row.reason], [0, 'exited'], 'how it ended stays');
		assert.equal((await cloche.api('POST', `${route}/signal`, { signal: 'TERM' })).status, 409);
	});

	test('strays go with the sandbox', { timeout: 60000 }, async () => {
		const own = (await cloche.create(spec)).id;
		const word = `gone-${process.pid}`;
		await cloche.exec(own, ['bash', '-c', `(setsid setsid bash -c "trap '' TERM; exec -a ${word} sleep 1000" > /dev/null 2>&1 &); sleep 0.2`]);
		assert.equal(named(word).length, 1);
		await cloche.get('POST', `/sandboxes/${own}/stop`, { graceMs: 200 });
		await until(() => named(word).length === 0, 'it is gone');
		await cloche.get('DELETE', `/sandboxes/${own}?force=1`);
	});

	test('a keeper that was taken over finds nothing', { timeout: 60000, skip: os.arch() === 'x64' ? false : 'written for x86-64' }, async () => {
		const keeper = keeperOf(cloche, box);
		assert.deepEqual(fs.readdirSync(`/proc/${keeper.pid}/root`), [], 'its root is empty');
		const status = fs.readFileSync(`/proc/${keeper.pid}/status`, 'utf8');
		assert.match(status, /^CapEff:\t0+$/m);
		assert.match(status, /^CapPrm:\t0+$/m);
		assert.match(status, /^NoNewPrivs:\t1$/m);
		const folders = fs.readdirSync(`/proc/${keeper.pid}/fd`).filter((fd) => {
			try {
				return fs.statSync(`/proc/${keeper.pid}/fd/${fd}`).isDirectory();
			} catch {
				return false;
			}
		});
		const attempts = [
			[[SYS.openat, -100, '/etc/passwd', 0], 'a file by its path'],
			[[SYS.openat, -100, '/proc/self/root', 0], 'its root through /proc'],
			[[SYS.execve, '/bin/sh', 0, 0], 'a program'],
			...folders.flatMap((fd) => [
				[[SYS.openat, Number(fd), '..', 0], `the parent of folder ${fd}`],
				[[SYS.openat, Number(fd), '../../../../../../../../../../../etc/passwd', 0], `out of folder ${fd}`],
				[[SYS.mkdirat, Number(fd), '../planted', 0o700], `a folder beside folder ${fd}`],
			]),
		];
		const drive = async (calls) => {
			const lines = calls.map((words) => words.map((word) => (typeof word === 'string' ? `"${word}"` : word)).join(' '));
			const { stdout, stderr } = await run('python3', [inject, String(keeper.pid)], { input: `${lines.join('\n')}\n` });
			assert.ok(stdout, stderr);
			return JSON.parse(stdout);
		};
		const same = (one, other) => one.dev === other.dev && one.ino === other.ino;
		const stat = (fd) => fs.statSync(`/proc/${keeper.pid}/fd/${fd}`);
		const results = await drive(attempts.map(([words]) => words));
		assert.ok(folders.length > 0, 'it has folders');
		attempts.forEach(([words, what], i) => {
			// Above the top of a mount that is attached nowhere there is only itself.
			if (results[i] >= 0 && words[2] === '..') assert.ok(same(stat(results[i]), stat(words[1])), what);
			else assert.ok([ERRNO.ENOENT, ERRNO.EACCES, ERRNO.EPERM, ERRNO.EROFS].includes(-results[i]), `${what}: ${results[i]}`);
		});
		assert.ok(attempts.some(([, what], i) => what.startsWith('the parent') && results[i] === -ERRNO.EACCES), `Landlock says no: ${results}`);
		await drive([...results.filter((fd) => fd >= 0).map((fd) => [SYS.close, fd])]);
		assert.equal((await exec('echo alive')).stdout, 'alive\n', 'it goes on');
	});

	test('a keeper maps no more than it may, whatever the sandbox makes it do', () => {
		const limits = fs.readFileSync(`/proc/${keeperOf(cloche, box).pid}/limits`, 'utf8');
		assert.match(limits, /^Max address space +268435456 +268435456 /m);
	});

	test('everything inside dies with its keeper, also an init that does not run', { timeout: 60000 }, async () => {
		const own = (await cloche.create(spec)).id;
		await cloche.exec(own, 'sleep 1000', { background: true });
		const keeper = keeperOf(cloche, own);
		const [init] = childrenOf(keeper);
		const all = inside(keeper);
		assert.ok(all.length >= 3, `${all.map((info) => info.comm)}`);
		process.kill(init.pid, 'SIGSTOP'); // it cannot notice by itself that its keeper is gone
		await until(() => processInfo(init.pid).state === 'T', 'init is stopped');
		process.kill(keeper.pid, 'SIGKILL');
		await until(() => !all.some(isAlive), 'all are gone');
		await until(async () => (await cloche.get('GET', `/sandboxes/${own}`)).state === 'failed', 'it is known to be lost');
		await cloche.get('DELETE', `/sandboxes/${own}?force=1`);
	});
}

const needsRoot = isRoot ? false : 'needs root';
describe('keeper', { skip: needsRoot }, () => suite(withDaemon({ before, after }), {}));
describe('keeper of an ordinary user', { skip: needsRoot }, () => suite(withDaemon({ before, after }, { user: ordinaryUser }), { degraded: true }));

// Where commands have the uid of our own processes inside, they can stop and kill those.
describe('keeper with one uid for all', { skip: needsRoot }, () => {
	const cloche = withDaemon({ before, after }, { user: ordinaryUser });
	let box;
	before(async () => {
		const sandbox = await cloche.create({ degraded: true });
		assert.equal(sandbox.isolation.uids, 1);
		box = sandbox.id;
	});

	test('a timeout is tried again until the command is gone', { timeout: 60000 }, async () => {
		const word = `held-${process.pid}`;
		// Its parent, which says how it ended, is stopped and says nothing.
		const result = await cloche.exec(box, ['bash', '-c', `sleep 0.3; kill -STOP $PPID; exec -a ${word} sleep 1000`], { timeoutMs: 1000 });
		assert.equal(result.reason, 'timeout', JSON.stringify(result));
		await until(() => named(word).length === 0, 'it is gone');
		assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n');
	});

	test('what lost its parent to a kill is killed, too', { timeout: 60000 }, async () => {
		const word = `orphan-${process.pid}`;
		const other = await cloche.exec(box, 'sleep 1000', { background: true });
		const { id } = await cloche.exec(box, ['bash', '-c', `(setsid bash -c "exec -a ${word} sleep 1000" > /dev/null 2>&1 &); sleep 0.3; kill -KILL $PPID; exec -a ${word} sleep 1000`], { background: true });
		await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state === 'ended', 'its end is known');
		await until(() => named(word).length === 0, 'none is left');
		assert.equal((await cloche.get('GET', `/sandboxes/${box}/execs/${other.id}`)).state, 'running', 'others run on');
		await cloche.get('POST', `/sandboxes/${box}/execs/${other.id}/kill`);
	});

	test('processes are limited by the user where no control group does it', { timeout: 60000 }, async () => {
		const own = await cloche.create({ degraded: true, limits: { pids: 40 } });
		assert.ok(own.isolation.degraded.includes('cgroup pids controller'), JSON.stringify(own.isolation));
		const script = 'import os, time\nn = 0\ntry:\n  while n < 400:\n    if os.fork() == 0: time.sleep(20); os._exit(0)\n    n += 1\nexcept OSError as e: print(n, e.errno)';
		const { stdout } = await cloche.exec(own.id, ['python3', '-c', script]);
		const [made, errno] = stdout.split(' ').map(Number);
		assert.ok(made < 40 && errno === 11, stdout);
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
		assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n', 'its neighbours have their own count');
	});
});
