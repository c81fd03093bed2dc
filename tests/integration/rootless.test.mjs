// The same as an ordinary user: what works, what is refused, what is shown as degraded.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { Daemon, cgroupMounts, isRoot, ordinaryUser, probeBin, run, clocheBin, sleep, until } from './lib.mjs';

const needsRoot = isRoot ? false : 'needs root to become an ordinary user';

describe('rootless', { skip: needsRoot }, () => {
	test('memory limits need a delegated control group: refused and named', async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const refused = await cloche.api('POST', '/sandboxes', {});
			assert.equal(refused.status, 503, String(refused.bytes));
			assert.equal(refused.body.code, 'missing_mechanism');
			assert.match(refused.body.detail, /cgroup|control group/i);
			const ran = await cloche.cli(['run', '--', 'true']);
			assert.notEqual(ran.code, 0);
			assert.match(ran.stderr, /cgroup|control group/i);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('degraded starts, and every status shows it', async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const sandbox = await cloche.create({ degraded: true });
			assert.equal(sandbox.degraded, true);
			assert.ok(sandbox.isolation.degraded.some((one) => /cgroup|memory|pids/.test(one)), JSON.stringify(sandbox.isolation));
			assert.deepEqual(sandbox.isolation.shared, [sandbox.isolation.uids === 1 ? 'uid' : 'uid range']);
			assert.match(await cloche.ok(['sandbox', 'info', sandbox.id]), /shared: +uid.*, with all sandboxes of this user/);
			assert.equal((await cloche.exec(sandbox.id, 'id -un; pwd; echo $HOME')).stdout, 'agent\n/workspace\n/home/agent\n');
			const out = await cloche.ok(['run', '--degraded', '--', 'sh', '-c', 'id -u; cat /proc/self/uid_map | wc -l; ls /']);
			assert.match(out, /^1000\n/);
			assert.equal((await cloche.cli(['run', '--degraded', '--', 'sh', '-c', 'exit 7'])).code, 7);
			assert.equal(await cloche.ok(['run', '--degraded', '--', 'cat'], { input: 'hi\n' }), 'hi\n');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('doctor says the same before the first start and after it', async () => {
		const cloche = new Daemon({ user: ordinaryUser, config: null });
		const disk = async () => JSON.parse((await cloche.cli(['-o', 'json', 'doctor'])).stdout).checks.filter((one) => one.name === 'disk_limit').map((one) => [one.status, one.detail])[0];
		try {
			const before = await disk();
			assert.equal(before[0], 'ok', before[1]);
			assert.deepEqual(fs.readdirSync(cloche.user.home), [], 'nothing stays');
			await cloche.serve();
			assert.deepEqual(await disk(), before);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('no process of it is root on the host', async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const sandbox = await cloche.create({ degraded: true });
			await cloche.exec(sandbox.id, 'sleep 100', { background: true });
			cloche.note();
			for (const info of cloche.seen.values()) {
				const status = fs.existsSync(`/proc/${info.pid}/status`) && fs.readFileSync(`/proc/${info.pid}/status`, 'utf8');
				if (status) assert.ok(!/^Uid:.*\b0\b/m.test(status), `${info.comm} ${info.pid} is root`);
			}
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('the probes find the same walls', { timeout: 120000 }, async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const canary = path.join(cloche.folder, 'canary');
			fs.writeFileSync(canary, 'secret', { mode: 0o644 });
			const sandbox = await cloche.create({ degraded: true });
			const answer = await cloche.api('PUT', `/sandboxes/${sandbox.id}/files?path=/workspace/probe&mode=0755`, fs.readFileSync(probeBin()));
			assert.equal(answer.status, 204, String(answer.bytes));
			for (const topic of ['files', 'devices', 'kernel', 'abi', 'privilege', 'processes', 'sockets']) {
				const result = await cloche.exec(sandbox.id, ['/workspace/probe', topic, `path=${canary}`, `state=${cloche.state}`, `pid=${process.pid}`, 'hostimage=1']);
				const broken = result.stdout.split('\n').filter((line) => line.startsWith('BROKEN'));
				// With one id for all, init has the uid of its commands: see the threat model.
				const shared = sandbox.isolation.uids === 1 ? /supervisor's (affinity|priority)/ : /^$/;
				assert.deepEqual(broken.filter((line) => !shared.test(line)), [], topic);
				assert.match(result.stdout, /\d+ attempts/, result.stderr);
			}
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('what stops the starter of commands does not stop commands for ever', { timeout: 120000 }, async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const { id, isolation } = await cloche.create({ degraded: true });
			assert.equal(isolation.uids, 1);
			const stop = (names) => `for p in /proc/[0-9]*; do case "$(cat $p/comm 2>/dev/null)" in ${names}) kill -STOP \${p#/proc/};; esac; done`;
			// Once: another one takes its place, and the command starts.
			await cloche.exec(id, stop('cloche-spawn'));
			assert.equal((await cloche.exec(id, 'echo again')).stdout, 'again\n');
			assert.equal((await cloche.exec(id, 'echo at once')).stdout, 'at once\n');
			// What is refused to its commands is told, too.
			const refused = await cloche.exec(id, 'python3 -c "import socket; socket.socket(40, 1)"; cat /run/cloche/denials');
			assert.match(refused.stderr, /Address family not supported/);
			assert.match(refused.stdout, /deny socket by python3\[\d+\]: a sandbox has no sockets of this family \(AF_VSOCK\)/);
			// All the time: it does not hang, and the sandbox can still be stopped.
			const { id: stopper } = await cloche.exec(id, ['python3', '-c', [
				'import os, signal',
				'while True:',
				'    for pid in filter(str.isdigit, os.listdir("/proc")):',
				'        try:',
				'            if open(f"/proc/{pid}/comm").read().strip() in ("cloche-spawn", "cloche-shim"): os.kill(int(pid), signal.SIGSTOP)',
				'        except OSError: pass',
			].join('\n')], { background: true });
			await sleep(500);
			const failed = await cloche.api('POST', `/sandboxes/${id}/execs`, { shell: 'echo never' });
			// Now and then one is faster than the stopper.
			if (failed.status !== 200) {
				assert.equal(failed.status, 503, `${failed.status} ${failed.bytes}`);
				assert.match(failed.body.detail, /did not start in 15 s/);
			}
			await cloche.get('POST', `/sandboxes/${id}/execs/${stopper}/kill`);
			await until(async () => (await cloche.exec(id, 'echo back').catch(() => ({}))).stdout === 'back\n', 'it is usable again', 60000);
			await cloche.get('POST', `/sandboxes/${id}/stop`, {});
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('with a delegated control group all limits hold', async (t) => {
		const mounts = cgroupMounts().filter((mount) => mount.version === 1 && /\b(memory|pids|cpu|cpuacct|freezer)\b/.test(mount.options));
		if (!mounts.length) return t.skip('control groups v2 only: delegation is systemd\'s');
		const name = `delegated-${process.pid}`;
		const folders = mounts.map((mount) => path.join(mount.path, 'cloche', name));
		const user = (folder) => {
			const one = ordinaryUser(folder);
			for (const group of folders) {
				fs.mkdirSync(group, { recursive: true });
				for (const file of ['', 'cgroup.procs', 'tasks']) fs.chownSync(path.join(group, file), one.uid, one.gid);
			}
			return one;
		};
		// A shell moves itself into the groups before it becomes the server.
		const wrap = (file, args) => ['sh', ['-c', `${folders.map((group) => `echo $$ > ${group}/cgroup.procs`).join(' && ')} && exec "$@"`, 'sh', file, ...args]];
		const cloche = await Daemon.start({ user, wrap });
		try {
			const sandbox = await cloche.create({ limits: { memory: '64M', pids: 40 } });
			assert.deepEqual(sandbox.isolation.degraded.filter((one) => /memory|pids|cgroup/.test(one)), []);
			const result = await cloche.exec(sandbox.id, ['python3', '-c', 'a=bytearray(1)\nwhile True: a.extend(bytes(1<<20))']);
			assert.equal(result.reason, 'oom');
			await cloche.stop();
		} finally {
			await cloche.discard();
			for (const group of folders) {
				try {
					for (const one of ['cloche']) if (fs.existsSync(path.join(group, one))) fs.rmdirSync(path.join(group, one));
					fs.rmdirSync(group);
				} catch {}
			}
		}
	});

	test('mounts that hold the state directory are refused', async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			for (const source of [cloche.state, path.dirname(cloche.state), path.join(cloche.state, 'store')]) {
				const result = await cloche.cli(['sandbox', 'create', '--degraded', '-v', `${source}:/mnt/x:rw`]);
				assert.notEqual(result.code, 0, source);
				assert.match(result.stderr, /state directory/);
			}
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('another user is not let in', async () => {
		const cloche = await Daemon.start({ user: ordinaryUser });
		try {
			const stranger = await run(clocheBin(), ['sandbox', 'list'], { env: cloche.env, uid: 48999, gid: 48999 });
			assert.notEqual(stranger.code, 0);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('a private daemon for one run leaves nothing', async () => {
		const cloche = new Daemon({ user: ordinaryUser });
		const result = await cloche.cli(['run', '--degraded', '--', 'echo', 'private']);
		assert.equal(result.stdout, 'private\n', result.stderr);
		assert.equal(result.code, 0);
		await cloche.assertNothingLeft();
		cloche.remove();
	});
});
