// The promises of docs/threat-model.md, attacked from inside with canaries on the host. A canary
// touched fails, whatever the probe's exit status says.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Daemon, clocheBin, clochedBin, isAlive, ordinaryUser, probeBin, processInfo, run, sha256, sleep, tar, until } from './lib.mjs';

class Canaries {
	static async plant(folder) {
		const all = new Canaries();
		all.folder = path.join(folder, 'canaries');
		fs.mkdirSync(all.folder, { mode: 0o755 });
		all.open = path.join(all.folder, 'open');
		all.closed = path.join(all.folder, 'closed');
		fs.writeFileSync(all.open, 'canary: readable by everybody', { mode: 0o644 });
		fs.writeFileSync(all.closed, 'canary: readable by root', { mode: 0o600 });
		all.files = [all.open, all.closed, clocheBin(), clochedBin(), '/etc/passwd', '/etc/shadow', '/usr/bin/env'].filter((file) => fs.existsSync(file));
		all.hashes = all.files.map(sha256);
		all.pattern = fs.readFileSync('/proc/sys/kernel/core_pattern', 'utf8');
		all.connections = 0;
		all.tcp = net.createServer(() => all.connections++).listen(0, '0.0.0.0');
		await once(all.tcp, 'listening');
		all.port = all.tcp.address().port;
		all.abstractName = `cloche-canary-${process.pid}`;
		all.abstract = net.createServer(() => all.connections++).listen(`\0${all.abstractName}`);
		await once(all.abstract, 'listening');
		all.victim = spawn('sleep', ['1000'], { stdio: 'ignore' });
		all.victimInfo = await until(() => processInfo(all.victim.pid), 'the victim runs');
		all.address = Object.values(os.networkInterfaces()).flat().find((one) => !one.internal && one.family === 'IPv4')?.address;
		return all;
	}

	check() {
		assert.deepEqual(this.files.map(sha256), this.hashes, 'a file of the host was changed');
		assert.equal(fs.readFileSync('/proc/sys/kernel/core_pattern', 'utf8'), this.pattern);
		assert.deepEqual(fs.readdirSync(this.folder).sort(), ['closed', 'open']);
		assert.equal(this.connections, 0, 'somebody connected to the host');
		assert.ok(isAlive(this.victimInfo), 'a process of the host was killed');
		assert.ok(!/T/.test(processInfo(this.victim.pid).state), 'a process of the host was stopped');
	}

	remove() {
		this.tcp.close();
		this.abstract.close();
		this.victim.kill('SIGKILL');
	}
}

describe('confinement', () => {
	let cloche, canaries, box;
	before(async () => {
		cloche = await Daemon.start();
		canaries = await Canaries.plant(cloche.folder);
		box = (await cloche.create({ name: 'hostile' })).id;
		await cloche.ok(['sandbox', 'cp', probeBin(), 'hostile:/workspace/probe']);
		await cloche.exec(box, 'chmod 755 /workspace/probe; mkdir -m 1777 /workspace/shared');
	});
	after(async () => {
		canaries?.remove();
		await cloche?.stop();
	});

	const probe = async (sandbox, user, topic, args = []) => {
		const result = await cloche.exec(sandbox, ['/workspace/probe', topic, ...args], { user, timeoutMs: 120000 });
		canaries.check();
		const broken = result.stdout.split('\n').filter((line) => line.startsWith('BROKEN'));
		assert.deepEqual(broken, [], `${topic} as ${user}`);
		assert.equal(result.exitCode, 0, `${topic} as ${user}: ${result.reason} ${result.stdout}${result.stderr}`);
		return result.stdout;
	};

	for (const user of ['agent', 'root'])
		for (const topic of ['files', 'devices', 'kernel', 'abi', 'privilege', 'processes', 'sockets', 'disk'])
			test(`${topic} as ${user}`, { timeout: 150000 }, async () => {
				await probe(box, user, topic, [
					`path=${canaries.open}`,
					`state=${cloche.state}`,
					'hostimage=1',
					'folder=/workspace/shared',
					`pid=${canaries.victim.pid}`,
					`abstract=${canaries.abstractName}`,
					`port=${canaries.port}`,
					...(canaries.address ? [`address=${canaries.address}`] : []),
				]);
				assert.equal((await cloche.exec(box, 'echo alive')).stdout, 'alive\n', 'the sandbox itself lives on');
			});

	test('E02: descriptors of a command with a terminal, of a background one, of a file verb', async () => {
		const list = 'ls -l /proc/self/fd | sed "s/.* \\([0-9]* -> .*\\)/\\1/" | grep -v "^total"';
		const tty = (await cloche.get('POST', `/sandboxes/${box}/execs`, { shell: list, tty: true, attach: true })).id;
		const socket = await cloche.attach(box, tty);
		const { stdout } = await socket.finish();
		const numbers = [...stdout.toString().matchAll(/^(\d+) -> (.*?)\r?$/gm)].map((match) => [Number(match[1]), match[2]]);
		for (const [fd, target] of numbers) assert.ok(fd <= 2 || /^\/proc\/\d+\/fd$/.test(target), `${fd} -> ${target}`);
		canaries.check();
	});

	test('E04: a program that is its own interpreter does not reach the starter', { timeout: 60000 }, async () => {
		const inside = (await cloche.exec(box, 'sha256sum /run/cloche/cloche', { user: 'root' })).stdout;
		await cloche.exec(box, 'printf "#!/proc/self/exe\\n" > /workspace/evil; chmod 755 /workspace/evil');
		for (const user of ['agent', 'root']) {
			const watcher = cloche.exec(box, ['/workspace/probe', 'files', 'only=starter overwritten', 'seconds=3'], { user });
			for (let i = 0; i < 25; i++) await cloche.api('POST', `/sandboxes/${box}/execs`, { argv: ['/workspace/evil'] });
			const result = await watcher;
			assert.equal(result.exitCode, 0, result.stdout);
		}
		canaries.check();
		assert.equal((await cloche.exec(box, 'sha256sum /run/cloche/cloche', { user: 'root' })).stdout, inside);
	});

	test('E11, E12: neighbours do not see each other', async () => {
		const neighbour = (await cloche.create({})).id;
		const { id } = await cloche.exec(neighbour, ['bash', '-c', 'echo secret > /tmp/secret; exec -a neighbour-canary sleep 1000'], { background: true });
		const seen = await cloche.exec(box, 'cat /proc/[0-9]*/cmdline | tr "\\0" "\\n"; ls /tmp', { user: 'root' });
		assert.ok(!seen.stdout.includes('neighbour-canary'));
		assert.ok(!seen.stdout.includes('secret'));
		await cloche.exec(box, 'kill -9 -1; true', { user: 'root' }).catch(() => {});
		assert.equal((await cloche.get('GET', `/sandboxes/${neighbour}/execs/${id}`)).state, 'running');
		canaries.check();
		const uid = async (sandbox) => (await cloche.exec(sandbox, 'cat /proc/self/uid_map')).stdout.trim().split(/\s+/)[1];
		assert.notEqual(await uid(box), await uid(neighbour), 'each has its own range of uids');
		await cloche.get('DELETE', `/sandboxes/${neighbour}?force=1`);
	});

	test('kill -1 from inside leaves the sandbox usable', async () => {
		for (const user of ['agent', 'root']) await cloche.api('POST', `/sandboxes/${box}/execs`, { shell: 'kill -9 -1', user });
		await until(async () => (await cloche.exec(box, 'echo alive')).stdout === 'alive\n', 'it answers');
		canaries.check();
	});

	test('E23, E24: a granted folder', { timeout: 60000 }, async () => {
		const owner = ordinaryUser(cloche.folder);
		const volume = path.join(cloche.folder, 'volume');
		const readonly = path.join(cloche.folder, 'readonly');
		for (const folder of [volume, readonly]) {
			fs.mkdirSync(folder, { mode: 0o755 });
			fs.chownSync(folder, owner.uid, owner.gid);
		}
		for (const name of ['suid', 'filecap']) fs.copyFileSync(probeBin(), path.join(volume, name));
		fs.chmodSync(path.join(volume, 'suid'), 0o4755);
		fs.chmodSync(path.join(volume, 'filecap'), 0o755);
		await run('setcap', ['cap_sys_admin,cap_dac_override+eip', path.join(volume, 'filecap')]).catch(() => {});
		fs.writeFileSync(path.join(volume, 'owned'), 'root owns this', { mode: 0o644 });
		fs.symlinkSync(canaries.open, path.join(volume, 'link'));
		const hashes = () => ['suid', 'filecap', 'owned'].map((name) => sha256(path.join(volume, name)));
		const before = hashes();
		await cloche.ok(['sandbox', 'create', '--name', 'volumes', '-v', `${volume}:/mnt/volume:rw`, '-v', `${readonly}:/mnt/readonly`]);
		const sandbox = (await cloche.get('GET', '/sandboxes/volumes')).id;
		await cloche.ok(['sandbox', 'cp', probeBin(), 'volumes:/workspace/probe']);
		await cloche.exec(sandbox, 'chmod 755 /workspace/probe');
		for (const user of ['agent', 'root']) await probe(sandbox, user, 'volume', ['volume=/mnt/volume', 'readonly=/mnt/readonly']);
		assert.deepEqual(hashes(), before);
		const wrote = await cloche.exec(sandbox, 'echo mine > /mnt/volume/mine; stat -c %u /mnt/volume/mine');
		assert.equal(wrote.exitCode, 0, wrote.stderr);
		assert.equal(fs.statSync(path.join(volume, 'mine')).uid, owner.uid, 'what the agent writes belongs to the owner of the folder');
		for (const name of fs.readdirSync(volume)) {
			const stat = fs.lstatSync(path.join(volume, name));
			if (name === 'suid') continue;
			assert.equal(stat.mode & 0o6000, 0, `${name} carries set-id bits`);
		}
		assert.deepEqual(fs.readdirSync(readonly), []);
		canaries.check();
		await cloche.get('DELETE', `/sandboxes/${sandbox}?force=1`);
		assert.equal(fs.readFileSync(path.join(volume, 'mine'), 'utf8'), 'mine\n', 'removing a sandbox leaves granted folders alone');
	});

	test('E05: a folder swapped for a link while it is mounted over', { timeout: 240000 }, async () => {
		const owner = ordinaryUser(cloche.folder);
		const volume = path.join(cloche.folder, 'swapped');
		const second = path.join(cloche.folder, 'second');
		for (const folder of [volume, second]) {
			fs.mkdirSync(folder);
			fs.chownSync(folder, owner.uid, owner.gid);
		}
		fs.writeFileSync(path.join(second, 'second'), 'x');
		await cloche.ok(['sandbox', 'create', '--name', 'swapper', '-v', `${volume}:/mnt/volume:rw`]);
		const swapper = (await cloche.get('GET', '/sandboxes/swapper')).id;
		await cloche.exec(swapper, `cd /mnt/volume; while :; do mkdir a; rmdir a; ln -s ${canaries.folder} a; rm a; ln -s / a; rm a; ln -s ../../../../../../../.. a; rm a; done 2>/dev/null`, { background: true });
		const rounds = Number(process.env.CLOCHE_ROUNDS ?? 40);
		for (let i = 0; i < rounds; i++) {
			const made = await cloche.cli(['run', '-v', `${volume}:/mnt/volume`, '-v', `${second}:/mnt/volume/a`, '--', 'ls', '/', '/mnt/volume/a']);
			if (made.code === 0) assert.ok(!/^open$/m.test(made.stdout), 'a mount landed on the host');
			canaries.check();
		}
		await cloche.get('DELETE', `/sandboxes/${swapper}?force=1`);
	});

	test('E26: a tree made to hurt is copied out without harm', { timeout: 120000 }, async () => {
		const script = [
			'import os',
			'os.makedirs("/workspace/tree/sub"); os.chdir("/workspace/tree")',
			`os.symlink("${canaries.open}", "to-canary"); os.symlink("/", "root"); os.symlink("..", "up"); os.symlink("${canaries.folder}", "folder")`,
			'os.mkfifo("pipe")',
			'import socket; s=socket.socket(socket.AF_UNIX); s.bind("sock")',
			'[open(b"n" + bytes([b]) + b"x", "w").close() for b in range(1, 256) if b != 47]',
			'os.makedirs("/".join(["d"] * 500))',
			'open("sub/..hidden", "w").write("x"); open("sub/file", "w").write("content")',
			'f = open("sparse", "w"); f.truncate(1 << 40)',
			'os.link("sub/file", "hard")',
		].join('\n');
		assert.equal((await cloche.exec(box, ['python3', '-c', script])).exitCode, 0);
		const target = path.join(cloche.folder, 'export');
		const result = await cloche.cli(['sandbox', 'cp', 'hostile:/workspace/tree/sub', target], { ms: 60000 });
		assert.equal(result.code, 0, result.stderr);
		await cloche.exec(box, 'rm /workspace/tree/sparse');
		const whole = path.join(cloche.folder, 'export-whole');
		await cloche.cli(['sandbox', 'cp', 'hostile:/workspace/tree', whole], { ms: 60000 });
		canaries.check();
		const walk = (folder) => fs.readdirSync(folder, { withFileTypes: true, encoding: 'buffer' }).forEach((entry) => {
			const full = Buffer.concat([Buffer.from(folder), Buffer.from('/'), entry.name]);
			const stat = fs.lstatSync(full);
			assert.ok(stat.isFile() || stat.isDirectory() || stat.isSymbolicLink() || stat.isFIFO() || stat.isSocket(), 'no device came out');
			assert.equal(stat.mode & 0o6000, 0, 'no set-id bit came out');
			if (stat.isDirectory()) walk(full);
		});
		if (fs.existsSync(whole)) walk(Buffer.from(whole));
	});

	test('E26: a folder of very many names is listed in part or refused, and copied out', { timeout: 120000 }, async () => {
		const many = await cloche.create({});
		const script = 'import os\nos.mkdir("/workspace/many")\nos.chdir("/workspace/many")\nfor i in range(30000): os.close(os.open("n%d" % i, os.O_CREAT | os.O_WRONLY))';
		assert.equal((await cloche.exec(many.id, ['python3', '-c', script])).exitCode, 0);
		const listed = await cloche.api('GET', `/sandboxes/${many.id}/files/list?path=/workspace/many`);
		assert.ok(listed.status === 200 || listed.status === 413, `${listed.status} ${String(listed.bytes).slice(0, 200)}`);
		const target = path.join(cloche.folder, 'many');
		const result = await cloche.cli(['sandbox', 'cp', `${many.id}:/workspace/many`, target], { ms: 60000 });
		assert.equal(result.code, 0, result.stderr);
		assert.equal(fs.readdirSync(target).length, 30000);
		await cloche.get('DELETE', `/sandboxes/${many.id}?force=1`);
		canaries.check();
	});

	test('E26: cp out of a sandbox never writes through a link in the target', async () => {
		await cloche.exec(box, 'mkdir -p /workspace/out/link; echo owned > /workspace/out/link/open; echo owned > /workspace/out/open');
		const target = path.join(cloche.folder, 'target');
		fs.mkdirSync(target);
		fs.symlinkSync(canaries.folder, path.join(target, 'link'));
		await cloche.cli(['sandbox', 'cp', 'hostile:/workspace/out', target]);
		fs.mkdirSync(path.join(target, 'out'), { recursive: true });
		await cloche.cli(['sandbox', 'cp', 'hostile:/workspace/out/.', target]);
		canaries.check();
	});

	test('E27: archives sent in stay in', async () => {
		const attacks = {
			climbing: [{ name: '../../../../../../../../../../tmp/escaped', content: 'x' }],
			absolute: [{ name: '/tmp/escaped-absolute', content: 'x' }],
			'through a link': [{ name: 'l', type: 'symlink', linkname: '/tmp' }, { name: 'l/escaped-link', content: 'x' }],
			'hard link': [{ name: 'h', type: 'hardlink', linkname: '/etc/passwd' }],
			device: [{ name: 'sda', type: 'block', major: 8, minor: 0 }],
			'set-id': [{ name: 'suid', content: 'x', mode: 0o6755 }],
			'terabyte': [{ name: 'big', size: 2 ** 40 }],
		};
		for (const [name, entries] of Object.entries(attacks)) {
			const answer = await cloche.api('PUT', `/sandboxes/${box}/archive?path=/workspace/in&parents=1`, name === 'terabyte' ? tar(entries).subarray(0, 1024) : tar(entries));
			if (!['absolute', 'set-id'].includes(name)) assert.ok(answer.status >= 400 && answer.status < 500, `${name}: ${answer.status}`);
			const inside = await cloche.exec(box, 'ls /tmp; find /workspace/in -perm /6000');
			assert.ok(!/escaped-link|^escaped$/m.test(inside.stdout), name);
			assert.ok(!/suid/.test(inside.stdout), 'set-id bits are dropped');
		}
		for (const name of ['escaped', 'escaped-absolute', 'escaped-link']) assert.ok(!fs.existsSync(`/tmp/${name}`), name);
		canaries.check();
	});

	test('E28: files that look like configuration are only files', async () => {
		const owner = ordinaryUser(cloche.folder);
		const volume = path.join(cloche.folder, 'project');
		fs.mkdirSync(volume);
		fs.chownSync(volume, owner.uid, owner.gid);
		const touched = path.join(canaries.folder, 'touched');
		await cloche.ok(['sandbox', 'create', '--name', 'planter', '-v', `${volume}:/workspace/project:rw`]);
		const planter = (await cloche.get('GET', '/sandboxes/planter')).id;
		const hook = `#!/bin/sh\ntouch ${touched}\n`;
		const names = ['.git/hooks/post-checkout', '.git/hooks/pre-commit', '.cloche/hooks/start', '.claude/settings.json', '.envrc', '.bashrc', 'cloche', 'config.toml', '.cloche/config.toml', 'sh', 'tar', 'cloched'];
		for (const name of names) await cloche.api('PUT', `/sandboxes/${planter}/files?path=/workspace/project/${name}&parents=1&mode=0755`, name.endsWith('.toml') ? '[daemon]\nuser = "root"\n' : hook);
		await cloche.exec(planter, `printf '[core]\\n\\tfsmonitor = "touch ${touched}"\\n' > /workspace/project/.git/config`);
		const options = { cwd: volume, env: { ...cloche.env, HOME: volume, PATH: `.:${process.env.PATH}` } };
		for (const args of [['sandbox', 'list'], ['sandbox', 'info', 'planter'], ['run', '-v', '.:/workspace/x', '--', 'true'], ['sandbox', 'cp', 'planter:/workspace/project', path.join(cloche.folder, 'copied')], ['doctor']])
			await cloche.cli(args, options);
		canaries.check();
		await cloche.get('DELETE', `/sandboxes/${planter}?force=1`);
	});

	test('a secret given as a variable shows up nowhere outside', async () => {
		const secret = `canary-secret-${process.pid}-value`;
		const one = await cloche.create({ env: { API_KEY: secret } });
		await cloche.exec(one.id, 'true', { env: { OTHER: secret } });
		await cloche.api('POST', `/sandboxes/${one.id}/execs`, { argv: ['/nosuch'], env: { OTHER: secret } });
		const events = JSON.stringify((await cloche.get('GET', '/events?limit=1000')).items);
		const info = JSON.stringify(await cloche.get('GET', `/sandboxes/${one.id}`));
		const execs = JSON.stringify(await cloche.get('GET', `/sandboxes/${one.id}/execs`));
		for (const [where, text] of Object.entries({ events, info, execs, log: cloche.log })) assert.ok(!text.includes(secret), where);
		await cloche.get('DELETE', `/sandboxes/${one.id}?force=1`);
	});

	test('E20: a stranger on the host is not let in', async () => {
		const outcome = await new Promise((resolve) => {
			const child = spawn(process.execPath, ['-e', `require('http').get({socketPath:${JSON.stringify(cloche.socket)},path:'/api/v1/health'},r=>{console.log(r.statusCode);process.exit()}).on('error',e=>console.log(e.code))`], { uid: 48998, gid: 48998 });
			let text = '';
			child.stdout.on('data', (part) => (text += part));
			child.on('close', () => resolve(text.trim()));
		});
		assert.ok(['EACCES', 'ENOENT', '403', '401'].includes(outcome), outcome);
	});

	test('the machine is as it was', async () => {
		await sleep(200);
		canaries.check();
	});
});
