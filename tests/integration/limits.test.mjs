// R01-R06: limits act, are named, and the machine around stays well.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';

import { probeBin, readAll, residentBytes, sleep, until, withDaemon, workGroups } from './lib.mjs';

describe('limits', () => {
	const cloche = withDaemon({ before, after });
	const MiB = 1 << 20;
	const limits = { memory: 96 * MiB, pids: 64, disk: 32 * MiB, inodes: 2000, nofile: 256, cpu: 0.5 };
	let box;
	before(async () => {
		box = (await cloche.create({ limits })).id;
		const probe = fs.readFileSync(probeBin());
		const answer = await cloche.api('PUT', `/sandboxes/${box}/files?path=/workspace/probe&mode=0755`, probe);
		assert.equal(answer.status, 204, String(answer.bytes));
	});
	const limitEvents = async () => (await cloche.get('GET', `/sandboxes/${box}/events?limit=1000`)).items.filter((one) => one.kind === 'sandbox.limit');
	const bomb = (...args) => cloche.exec(box, ['/workspace/probe', 'bombs', ...args], { timeoutMs: 120000 });

	test('a fork bomb stops at the limit; the box answers', async () => {
		const result = await bomb('pids=64');
		assert.equal(result.exitCode, 0, result.stdout);
		assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n');
		await until(async () => (await limitEvents()).some((one) => one.data.reason === 'pids'), 'pids is named in the events');
		const { meters } = await cloche.get('GET', `/sandboxes/${box}`);
		assert.ok(meters.pidsDenied > 0);
	});

	test('a bomb nobody waits for is killed', async () => {
		const { id } = await cloche.exec(box, 'bomb() { bomb | bomb & }; bomb; sleep 60', { background: true });
		await sleep(700);
		await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
		await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state === 'ended', 'bomb is gone');
		assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n');
	});

	for (const kind of ['anonymous memory', 'System V shared memory', 'memfd', '/dev/shm', '/tmp', 'pipe buffers', 'socket buffers', 'TCP buffers', 'locked memory'])
		test(`memory is counted: ${kind}`, { timeout: 60000 }, async () => {
			// Where no process owns the pages, the kernel may choose the probe itself as its victim.
			const result = await bomb(`memory=${limits.memory}`, `only=${kind}`);
			assert.ok(result.exitCode === 0 || result.reason === 'oom', `${result.reason} ${result.stdout}${result.stderr}`);
			assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n', 'the sandbox survives');
		});

	// Some things the kernel counts per user also count for the owner of a user namespace.
	for (const [what, call] of [['inotify instances', 'l.inotify_init1(0)>=0'], ['pending signals', 'l.timer_create(1,None,ctypes.byref(t))==0']])
		test(`the host's own ${what} are not used up`, { timeout: 60000, skip: process.getuid() !== 0 && 'an ordinary user shares its own' }, async () => {
			const script = (then) => `import ctypes,time\nl=ctypes.CDLL(None)\nt=ctypes.c_void_p()\n${then}`;
			const { id } = await cloche.exec(box, ['python3', '-c', script(`while ${call}: pass\nprint("full",flush=True)\ntime.sleep(60)`)], { background: true });
			await until(async () => String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes).includes('full'), 'everything is taken');
			const host = spawnSync('python3', ['-c', script(`import sys\nsys.exit(0 if ${call} else 1)`)]);
			await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
			assert.equal(host.status, 0, `the host could not get one: ${host.stderr}`);
		});

	test('out of memory is the reason of the exec and an event', async () => {
		const result = await cloche.exec(box, ['python3', '-c', 'a=bytearray(1)\nwhile True: a.extend(bytes(1<<20))']);
		assert.equal(result.reason, 'oom');
		await until(async () => (await limitEvents()).some((one) => one.data.reason === 'oom'), 'oom is named in the events');
		const info = await cloche.get('GET', `/sandboxes/${box}`);
		assert.equal(info.state, 'running', 'the sandbox survives');
		assert.ok(info.meters.oomKills > 0);
		assert.ok(info.meters.memoryPeakBytes <= limits.memory * 1.1);
	});

	test('a full disk is an error inside and an event', async () => {
		const result = await bomb(`disk=${limits.disk}`, `inodes=${limits.inodes}`);
		assert.equal(result.exitCode, 0, result.stdout);
		const full = await cloche.exec(box, 'head -c 64M /dev/zero > /workspace/fill; echo $?; sleep 1.5; rm /workspace/fill');
		assert.match(full.stderr, /No space left|Disk quota exceeded/);
		await until(async () => (await limitEvents()).some((one) => one.data.reason === 'disk'), 'disk is named in the events');
		assert.equal((await cloche.exec(box, 'echo ok > /workspace/again; cat /workspace/again')).stdout, 'ok\n', 'space comes back');
	});

	test('a write by the API on a full disk is 507', async () => {
		await cloche.exec(box, 'head -c 64M /dev/zero > /workspace/fill 2>/dev/null');
		const answer = await cloche.api('PUT', `/sandboxes/${box}/files?path=/workspace/more`, Buffer.alloc(MiB));
		assert.equal(answer.status, 507, String(answer.bytes));
		assert.equal(answer.body.code, 'no_space');
		await cloche.exec(box, 'rm -f /workspace/fill');
	});

	for (const [what, fill] of [
		['bytes', 'head -c 64M /dev/zero > big; for i in 1 2 3 4 5 6 7 8 9; do head -c 5k /dev/zero > small$i; done'],
		['files', 'python3 -c "for i in range(9999): open(str(i), \'w\')"'],
	])
		test(`a disk without ${what} left starts again`, { timeout: 60000 }, async (t) => {
			const own = await cloche.create({ limits: { disk: 32 * MiB, inodes: 1000 } });
			if (own.isolation.disk === 'tmpfs') return t.skip('nothing is kept here');
			for (let round = 0; round < 2; round++) {
				await cloche.exec(own.id, `cd /workspace; ${fill}`);
				await cloche.get('POST', `/sandboxes/${own.id}/stop`, {});
				await cloche.get('POST', `/sandboxes/${own.id}/start`);
			}
			assert.equal((await cloche.exec(own.id, 'rm -rf /workspace/* && echo x > /workspace/x')).exitCode, 0);
			await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
		});

	test('deep trees are removed', async () => {
		const own = await cloche.create({});
		await cloche.api('PUT', `/sandboxes/${own.id}/files?path=/workspace/probe&mode=0755`, fs.readFileSync(probeBin()));
		assert.equal((await cloche.exec(own.id, ['./probe', 'bombs', 'depth=3000'])).exitCode, 0);
		assert.equal((await cloche.api('DELETE', `/sandboxes/${own.id}/files?path=/workspace/deep&recursive=1`)).status, 204);
		assert.equal((await cloche.exec(own.id, ['./probe', 'bombs', 'depth=3000'])).exitCode, 0);
		assert.equal((await cloche.api('DELETE', `/sandboxes/${own.id}?force=1`)).status, 204);
	});

	test('a file larger than the memory is written through its page cache', { timeout: 60000 }, async (t) => {
		const own = await cloche.create({ limits: { memory: 64 * MiB, disk: 256 * MiB } });
		if (own.isolation.disk === 'tmpfs') return t.skip('files are memory here');
		const result = await cloche.exec(own.id, 'dd if=/dev/zero of=/workspace/big bs=1M count=192 2>&1 && cat /workspace/big | wc -c');
		assert.match(result.stdout, /\n201326592\n$/, `${result.reason} ${result.stdout}`);
		const { meters } = await cloche.get('GET', `/sandboxes/${own.id}`);
		assert.ok(meters.memoryPeakBytes <= 64 * MiB * 1.1, `${meters.memoryPeakBytes}`);
		assert.equal(meters.oomKills, 0);
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('a flood of refusals is a few events, not a flood of them', { timeout: 60000 }, async () => {
		const own = await cloche.create({ limits: { pids: 24 } });
		const start = Date.now();
		const { id } = await cloche.exec(own.id, ['python3', '-c', 'import os, time\nend = time.time() + 4\nwhile time.time() < end:\n  try:\n    os.fork() or time.sleep(60)\n  except OSError: pass'], { background: true });
		await until(async () => (await cloche.get('GET', `/sandboxes/${own.id}/execs/${id}`)).state === 'ended', 'it ends');
		const { meters } = await cloche.get('GET', `/sandboxes/${own.id}`);
		const told = (await cloche.get('GET', `/sandboxes/${own.id}/events?limit=1000`)).items.filter((one) => one.kind === 'sandbox.limit');
		assert.ok(meters.pidsDenied > 100, `${meters.pidsDenied} refused`);
		assert.ok(told.length >= 1 && told.length <= (Date.now() - start) / 1000 + 3, `${told.length} events`);
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('a small disk with the usual number of files', async () => {
		const own = await cloche.create({ limits: { disk: '16M' } });
		assert.equal((await cloche.exec(own.id, 'echo x > f; cat f')).stdout, 'x\n');
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('open files', async () => {
		const result = await bomb('nofile=256');
		assert.equal(result.exitCode, 0, result.stdout);
	});

	test('processor time', { timeout: 60000 }, async () => {
		const before = (await cloche.get('GET', `/sandboxes/${box}`)).meters.cpuSeconds;
		const start = Date.now();
		await cloche.exec(box, 'for i in 1 2 3; do (timeout 3 sh -c "while :; do :; done") & done; wait');
		const used = (await cloche.get('GET', `/sandboxes/${box}`)).meters.cpuSeconds - before;
		const wall = (Date.now() - start) / 1000;
		assert.ok(used / wall < 0.5 * 1.15, `${used.toFixed(2)} s in ${wall.toFixed(2)} s`);
		const groups = workGroups(box);
		const limits = ['cpu.cfs_quota_us cpu.cfs_period_us', 'cpu.max'].map((names) => names.split(' ').flatMap((name) => groups.map((group) => path.join(group, name)).filter(fs.existsSync).map((file) => fs.readFileSync(file, 'utf8').trim())).join(' ').split(' '));
		assert.deepEqual(limits.filter((one) => one.length === 2).map(([quota, period]) => quota / period), [0.5], 'and it is all of what was asked for');
	});

	test('output floods: the rate holds, the daemon stays small', { timeout: 60000 }, async () => {
		const own = await cloche.create({ limits: { outputRate: 8 * MiB } });
		const daemon = cloche.daemonProcess();
		const before = residentBytes(daemon.pid);
		const start = Date.now();
		const { id } = await cloche.exec(own.id, 'cat /dev/zero', { background: true });
		let peak = 0;
		const said = await until(async () => {
			peak = Math.max(peak, residentBytes(daemon.pid));
			const { outputBytes } = await cloche.get('GET', `/sandboxes/${own.id}/execs/${id}`);
			return outputBytes > 24 * MiB && outputBytes;
		}, 'much was said');
		const most = 8 * MiB * ((Date.now() - start) / 1000 + 2); // what may come at once included
		assert.ok(said < most, `${said >> 20} of ${most >> 20} MiB`);
		assert.ok(peak - before < 16 * MiB, `the daemon grew by ${(peak - before) >> 20} MiB`);
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('all output of a sandbox together is bounded; what ended first goes first', { timeout: 120000 }, async () => {
		const own = await cloche.create({ limits: { outputRate: '1G' } });
		const folder = `${cloche.state}/sandboxes/${own.id}/out`;
		const stored = () => Number(spawnSync('du', ['-sb', folder]).stdout.toString().split('\t')[0]);
		const ids = [];
		// 16 MiB are kept of each: the total would be 320 MiB.
		for (let i = 0; i < 20; i++) {
			const { id } = await cloche.exec(own.id, `head -c 17M /dev/zero; echo end ${i}`, { background: true });
			ids.push(id);
			await until(async () => (await cloche.get('GET', `/sandboxes/${own.id}/execs/${id}`)).state === 'ended', 'it ended');
			assert.ok(stored() < 260 * MiB, `${stored() / MiB} MiB`);
		}
		assert.ok(stored() > 200 * MiB, `${stored() / MiB} MiB`);
		const output = async (id) => String((await cloche.api('GET', `/sandboxes/${own.id}/execs/${id}/output`)).bytes);
		assert.equal(await output(ids[0]), '', 'the oldest is gone');
		assert.match(await output(ids[19]), /end 19\n$/, 'the newest is there');
		const events = await cloche.events(`/sandboxes/${own.id}/execs/${ids[0]}/output?follow=1`);
		assert.equal(JSON.parse((await events.next()).data).stream, 'gap');
		assert.deepEqual(JSON.parse((await events.next()).data).exitCode, 0);
		events.close();
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('one line of 100 MB, escape sequences and broken UTF-8 are only bytes', { timeout: 60000 }, async () => {
		const own = await cloche.create();
		const { id } = await cloche.exec(own.id, 'head -c 100000000 /dev/zero | tr "\\0" "\\377"; printf "\\033[2J\\033]0;x\\007"', { background: true });
		const response = await cloche.stream('GET', `/sandboxes/${own.id}/execs/${id}/output?follow=1`);
		const bytes = await readAll(response);
		assert.ok(bytes.subarray(-8).equals(Buffer.from('\x1b]0;x\x07', 'latin1').subarray(-8)) || bytes.length > 0);
		await cloche.get('DELETE', `/sandboxes/${own.id}?force=1`);
	});

	test('neighbours work on beside a fork bomb', { timeout: 60000 }, async () => {
		const neighbour = (await cloche.create()).id;
		const { id } = await cloche.exec(box, 'bomb() { bomb | bomb & }; bomb; sleep 60', { background: true });
		for (let i = 0; i < 20; i++) assert.equal((await cloche.exec(neighbour, ['true'])).exitCode, 0);
		await cloche.api('POST', `/sandboxes/${box}/execs/${id}/kill`); // it may have ended by itself
	});
});
