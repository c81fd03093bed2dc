// config.toml, setup, doctor, the lock, help: what an operator meets.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, clocheBin, isRoot, ordinaryUser, run, tar, until, withDaemon } from './lib.mjs';

describe('config.toml', () => {
	const wrong = {
		'unknown key with a guess': ['[sandboxes.default]\nmemroy = "1G"\n', /config\.toml:2: unknown key 'memroy' in \[sandboxes\.default\] \(did you mean 'memory'\?\)/],
		'unknown table': ['\n\n[sandbox.default]\n', /config\.toml:3: .*'sandbox'/],
		'wrong type': ['[sandboxes.default]\npids = "many"\n', /config\.toml:2: .*pids/],
		'out of range': ['[sandboxes.default]\npids = 1\n', /config\.toml:2: .*pids/],
		'no TOML': ['[daemon\n', /config\.toml:1: /],
		'twice': ['[daemon]\nuser = "a"\nuser = "b"\n', /config\.toml:3: /],
		'unknown level': ['[daemon]\nlog_level = "loud"\n', /config\.toml:2: .*log_level/],
		'a user that does not exist': ['[daemon]\nuser = "no-such-user-here"\n', /no-such-user-here/],
		'unknown runtime': ['[sandboxes.default]\nruntime = "magic"\n', /config\.toml:2: .*runtime|magic/],
	};
	for (const [name, [text, pattern]] of Object.entries(wrong))
		test(`refused: ${name}`, async () => {
			const daemon = new Daemon({ config: text });
			const result = await daemon.cli(['serve'], { ms: 10000 });
			assert.equal(result.code, 78, `${result.code ?? result.signal}: ${result.stderr}`);
			assert.match(result.stderr, pattern);
			daemon.remove();
		});

	test('profiles are recipes', async () => {
		const daemon = await Daemon.start({
			config: '[sandboxes.default]\nmemory = "300M"\n[sandboxes.small]\nmemory = "64M"\npids = 20\nttl = "1h"\nenv = { FROM = "profile", KEY = "v" }\ncwd = "/tmp"\n',
		});
		try {
			const small = await daemon.create({ profile: 'small', env: { KEY: 'request' } });
			assert.equal(small.limits.memory, 64 << 20);
			assert.equal(small.limits.pids, 20);
			assert.equal(small.ttlMs, 3600000);
			assert.equal((await daemon.exec(small.id, 'pwd; echo $FROM $KEY')).stdout, '/tmp\nprofile request\n');
			assert.equal((await daemon.create()).limits.memory, 300 << 20);
			assert.match(await daemon.ok(['profile', 'list']), /small/);
			assert.equal((await daemon.json(['profile', 'show', 'small'])).limits.pids, 20);
			const missing = await daemon.api('POST', '/sandboxes', { profile: 'smal' });
			assert.equal(missing.status, 404);
			assert.match(missing.body.detail, /small/);
			await daemon.stop();
		} finally {
			await daemon.discard();
		}
	});
});

describe('setup', () => {
	test('writes what is missing; a second run changes nothing', async () => {
		const daemon = new Daemon();
		await daemon.ok(['setup']);
		const snapshot = () => {
			const all = {};
			const walk = (folder) => {
				for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
					const full = path.join(folder, entry.name);
					const stat = fs.lstatSync(full);
					all[full] = [stat.mode, stat.uid, stat.mtimeMs, entry.isFile() ? fs.readFileSync(full, 'latin1') : ''];
					if (entry.isDirectory()) walk(full);
				}
			};
			walk(daemon.state);
			return all;
		};
		const first = snapshot();
		assert.ok(Object.keys(first).some((name) => name.endsWith('config.toml')));
		const keys = Object.entries(first).filter(([name]) => name.includes('/keys/'));
		assert.ok(keys.length > 0, 'there is a signing key');
		for (const [name, [mode]] of keys) assert.equal(mode & 0o077, 0, `${name} is readable by others`);
		await daemon.ok(['setup']);
		assert.deepEqual(snapshot(), first);
		await daemon.serve();
		assert.equal((await daemon.api('GET', '/health')).status, 200, 'the file it wrote is accepted');
		await daemon.stop();
	});
});

describe('doctor', () => {
	const cloche = withDaemon({ before, after });

	test('says what this machine enforces, with and without a daemon', async () => {
		const human = await cloche.cli(['doctor']);
		assert.match(human.stdout, /seccomp/i);
		const report = JSON.parse((await cloche.cli(['-o', 'json', 'doctor'])).stdout);
		for (const name of ['seccomp', 'landlock', 'cgroup', 'disk']) assert.ok(report.checks.some((one) => one.name.includes(name)), `${name} in ${report.checks.map((one) => one.name)}`);
		for (const check of report.checks) {
			assert.ok(['ok', 'missing', 'degraded'].includes(check.status), check.status);
			if (check.status !== 'ok') assert.ok(check.remedy, `${check.name} says what to do`);
		}
		const alone = await run(clocheBin(), ['-o', 'json', 'doctor', '--state', path.join(cloche.folder, 'other')]);
		assert.deepEqual(JSON.parse(alone.stdout).checks.map((one) => one.name), report.checks.map((one) => one.name));
		const disk = (text) => JSON.parse(text).checks.filter((one) => one.name === 'disk_limit').map((one) => [one.status, one.detail])[0];
		assert.deepEqual(disk(alone.stdout), disk(JSON.stringify(report)), 'before the first start as after it');
		assert.deepEqual(fs.readdirSync(cloche.folder).filter((name) => name.includes('doctor')), [], 'nothing stays');
		const api = await cloche.get('GET', '/doctor');
		// the command line starts a sandbox besides
		assert.deepEqual([...api.checks.map((one) => [one.name, one.status]), ['sandbox', 'ok']], report.checks.map((one) => [one.name, one.status]));
	});

	const trial = (result) => JSON.parse(result.stdout).checks.find((one) => one.name === 'sandbox');
	const doctor = ['-o', 'json', 'doctor'];

	test('starts a sandbox and takes it away again, with and without a daemon', async () => {
		const started = async () => (await cloche.get('GET', '/events?limit=1000')).items.filter((one) => one.kind === 'sandbox.running').length;
		const before = await started();
		const { status, detail } = trial(await cloche.cli(doctor));
		assert.deepEqual([status, detail], ['ok', 'one was started and ran /bin/true']);
		await until(async () => (await started()) === before + 1, 'it was there');
		await until(async () => (await cloche.get('GET', '/sandboxes')).items.length === 0, 'it is gone');

		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-test-'));
		const env = { ...cloche.env, CLOCHE_STATE: path.join(folder, 'state'), TMPDIR: folder };
		assert.deepEqual(trial(await run(clocheBin(), doctor, { env })), { name: 'sandbox', status: 'ok', detail, remedy: '' });
		assert.deepEqual(fs.readdirSync(folder), [], 'nothing stays, no state directory either');
		fs.rmdirSync(folder);
	});

	test('names the step at which one fails, though every mechanism is there', async () => {
		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-test-'));
		fs.copyFileSync(clocheBin(), path.join(folder, 'cloche'));
		const env = { ...cloche.env, CLOCHE_STATE: path.join(folder, 'state'), TMPDIR: folder };
		const alone = await run(path.join(folder, 'cloche'), doctor, { env });
		assert.equal(alone.code, 1);
		assert.match(trial(alone).detail, /^start a daemon: .*cloched/);
		fs.rmSync(folder, { recursive: true });

		const broken = await Daemon.start();
		try {
			const archive = path.join(broken.folder, 'bare.tar');
			fs.writeFileSync(archive, tar([{ name: 'bin/', type: 'dir' }]));
			await broken.ok(['image', 'import', 'bare', archive]);
			assert.equal((await broken.cli(['stop'])).code, 0);
			await broken.ended;
			broken.configure('[sandboxes.default]\npool = 0\nimage = "bare"\n');
			await broken.serve();
			const result = await broken.cli(doctor);
			assert.equal(result.code, 1);
			assert.match(trial(result).detail, /^execute '\/bin\/true': No such file/);
			assert.equal(trial(result).status, 'missing');
			assert.match((await broken.cli(['doctor'])).stdout, /no sandbox works here/);
			await until(async () => (await broken.get('GET', '/sandboxes')).items.length === 0, 'it is gone');
			await broken.stop();
		} finally {
			await broken.discard();
		}
	});

	test('status and version', async () => {
		assert.match(await cloche.ok(['status']), /\S/);
		const version = await cloche.json(['version']);
		assert.match(JSON.stringify(version), /\d+\.\d+\.\d+/);
		const api = await cloche.get('GET', '/version');
		assert.equal(api.stateDir, cloche.state);
		assert.equal(api.pid, cloche.daemonProcess().pid);
	});

	test('a second server on the same state directory is refused', async () => {
		const second = await cloche.cli(['serve'], { ms: 10000 });
		assert.notEqual(second.code, 0);
		assert.match(second.stderr, /another cloche serves this state directory \(pid \d+\)/);
		assert.equal((await cloche.api('GET', '/health')).status, 200);
	});

	test('cloched is never root and has no capability', () => {
		const { pid } = cloche.daemonProcess();
		const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
		assert.ok(!/^Uid:.*\b0\b/m.test(status), status);
		assert.ok(!/^Gid:.*\b0\b/m.test(status));
		assert.match(status, /^CapEff:\t0{16}$/m);
		assert.match(status, /^CapPrm:\t0{16}$/m);
		assert.match(status, /^NoNewPrivs:\t1$/m);
	});

	test('the state directory is closed', () => {
		const mode = fs.statSync(cloche.state).mode & 0o777;
		assert.equal(mode & 0o007, 0, mode.toString(8));
		for (const name of ['layers', 'sandboxes', 'store', 'keys', 'tmp', 'run']) {
			const folder = path.join(cloche.state, name);
			if (fs.existsSync(folder)) assert.equal(fs.statSync(folder).mode & 0o007 & ~0o001, 0, name);
		}
		const sockets = fs.readdirSync(cloche.state).filter((name) => fs.lstatSync(path.join(cloche.state, name)).isSocket());
		assert.deepEqual(sockets, ['cloche.sock']);
	});
});

describe('where the state directory lies', () => {
	test('below a folder that only root may enter', async () => {
		const cloche = new Daemon();
		fs.chmodSync(cloche.folder, 0o700);
		try {
			await cloche.serve();
			assert.equal(await cloche.ok(['run', '--', 'echo', 'served']), 'served\n');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('with a path longer than a socket address', async () => {
		const cloche = new Daemon();
		cloche.state = path.join(cloche.folder, 'long'.repeat(40), 'state');
		cloche.socket = path.join(cloche.state, 'cloche.sock');
		cloche.env.CLOCHE_STATE = cloche.state;
		try {
			const ended = cloche.cli(['run', '--', 'echo', 'served']);
			assert.equal((await ended).stdout, 'served\n', (await ended).stderr);
		} finally {
			cloche.remove();
		}
	});

	test('one that others may write is refused', async () => {
		const cloche = new Daemon({ config: null });
		fs.mkdirSync(cloche.state);
		fs.chmodSync(cloche.state, 0o777);
		const result = await cloche.cli(['serve'], { ms: 10000 });
		assert.notEqual(result.code, 0);
		assert.match(result.stderr, /state/);
		cloche.remove();
	});
});

describe('a store of a later version', () => {
	const spoil = (cloche) =>
		run('python3', ['-c', 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\ndb.execute("INSERT INTO schema_versions VALUES (9999, \'later\', 1, \'99.0\')")\ndb.commit()', path.join(cloche.state, 'store/cloche.db')], {
			uid: cloche.user?.uid,
			gid: cloche.user?.gid,
		});
	for (const [who, options] of [['root', {}], ['an ordinary user', { user: ordinaryUser }]])
		test(`ends \`cloche serve\` of ${who} with the reason`, { skip: isRoot ? false : 'needs root', timeout: 60000 }, async () => {
			const cloche = await Daemon.start(options);
			try {
				await cloche.cli(['stop']);
				await cloche.ended;
				assert.equal((await spoil(cloche)).code, 0);
				const result = await cloche.cli(['serve'], { ms: 15000 });
				assert.ok(result.code > 0, `ended with ${result.code ?? result.signal}: ${result.stderr}`);
				assert.match(result.stderr, /"cannot serve","error":"[^"]*written by cloche 99\.0/);
				assert.ok(result.stderr.split('"cloched started"').length === 2, 'it was started once');
				const once = await cloche.cli(['run', '--', 'true'], { ms: 15000 });
				assert.ok(once.code > 0);
				assert.match(once.stderr, /written by cloche 99\.0/);
			} finally {
				await cloche.discard();
			}
		});
});

describe('help', () => {
	test('every command explains itself with an example', async () => {
		const top = await run(clocheBin(), ['help']);
		assert.equal(top.code, 0);
		const commands = fs.readFileSync(new URL('../../src/cli/commands.def', import.meta.url), 'utf8').matchAll(/^COMMAND\("([^"]+)"/gm);
		for (const [, words] of commands) {
			const help = await run(clocheBin(), [...words.split(' '), '--help']);
			assert.equal(help.code, 0, words);
			assert.match(help.stdout, /example/i, words);
			assert.ok(help.stdout.includes(`cloche ${words}`), words);
		}
	});

	test('completion scripts are accepted by their shells', async () => {
		const bash = await run(clocheBin(), ['completion', 'bash']);
		assert.equal(bash.code, 0);
		assert.equal((await run('bash', ['-n'], { input: bash.stdout })).code, 0);
		for (const shell of ['zsh', 'fish']) assert.match((await run(clocheBin(), ['completion', shell])).stdout, /cloche/);
	});
});
