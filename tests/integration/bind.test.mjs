// What a request asks for, bound to a sandbox made in advance: it must come from the pool and look
// inside like one that was made for the request, or be made for it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Daemon } from './lib/daemon.mjs';
import * as host from './lib/host.mjs';
import { call, until } from './lib/http.mjs';

const POOL = 2;
// The same three times: one daemon has a stock, one makes each when it is asked for, one has blank ones.
const config = (many, one, blanks = 0) => `[sandboxes]
blanks = ${blanks}
[sandboxes.default]
pool = ${many}
[sandboxes.memory]
pool = ${one}
disk_backend = "tmpfs"
`;
const OWNER = 12345;

const inspection = `
hostname; cat /etc/hostname /etc/hosts; ls -la /etc/hosts /etc/hostname | awk '{print $1, $3, $4}'
id; pwd; ulimit -a; env | sort | grep -v ^HOSTNAME
awk '{sub(/^[0-9]+ [0-9]+ [0-9]+:[0-9]+/, ""); print}' /proc/self/mountinfo | sort
df -B1 --output=size,itotal,target / /dev/shm
ls -la / | awk '{print $1, $3, $4, $NF}' | sort; ls -la /mnt /srv /workspace 2>&1 | awk '{print $1, $3, $4, $NF}'
for place in / /usr /tmp /home/agent /workspace /mnt /srv /opt /fresh /fresh/deep /mnt/sub /mnt/deep/er /mnt/file /workspace/nested; do
	[ -e $place ] || continue
	if [ -d $place ]; then touch $place/probe 2>&1 && ls -la $place/probe | awk '{print $1, $3, $4}' && rm $place/probe; cat $place/seed 2>&1
	else cat $place; echo more 2>&1 >> $place; fi
	echo "$place $?"
done
`;

const LIMIT_FILES = [
	'memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', 'memory.kmem.tcp.limit_in_bytes', 'memory.swappiness',
	'cpu.cfs_quota_us', 'cpu.cfs_period_us', 'pids.max', 'memory.max', 'memory.swap.max', 'cpu.max',
];

/** {group file: text} of the part of the sandbox's control groups where commands run. */
function limitsOf(id) {
	const found = {};
	for (const folder of host.workGroups(id))
		for (const name of LIMIT_FILES) {
			const file = path.join(folder, name);
			if (fs.existsSync(file)) found[file.replace(id, 'ID')] = fs.readFileSync(file, 'utf8');
		}
	return found;
}

describe('binding at the claim', () => {
	let cloche;
	let plain;
	let blank;
	let ours;
	const STOCK = POOL + 1;
	const BLANKS = 2;
	const folders = () => fs.readdirSync(path.join(cloche.state, 'sandboxes'));
	/** The sum over all profiles. */
	const metric = async (name, daemon = cloche) => {
		const { bytes } = await call(daemon.socket, 'GET', '/metrics');
		const lines = String(bytes).split('\n').filter((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
		return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
	};
	const filled = async () => {
		await until(async () => (await metric('cloche_pool_ready')) === STOCK, 'the pool is full');
		await until(async () => (await metric('cloche_blanks_ready', blank)) === BLANKS, 'blank ones are there');
	};
	const fresh = (name, owner = 0) => {
		const folder = path.join(ours, name);
		fs.rmSync(folder, { recursive: true, force: true });
		fs.mkdirSync(folder);
		fs.writeFileSync(path.join(folder, 'seed'), `seed of ${name}\n`);
		for (const one of [folder, path.join(folder, 'seed')]) fs.chownSync(one, owner, owner);
		return folder;
	};
	const create = async (args, daemon = cloche) => JSON.parse(await daemon.ok(['-o', 'json', 'sandbox', 'create', ...args]));
	const remove = (id, daemon = cloche) => daemon.get('DELETE', `/sandboxes/${id}?force=1`);

	/** Both ways; returns what each shows, ids written as ID. */
	async function both(args, { user, profile = 'default' }) {
		await filled();
		const shown = [];
		for (const daemon of [cloche, plain, blank]) {
			const parked = folders();
			const wasBlank = await metric('cloche_blanks_hits_total', blank);
			const hits = await metric('cloche_pool_hits_total');
			const failures = await metric('cloche_claim_failures_total');
			const isPooled = daemon === cloche;
			const box = await create([...(typeof args === 'function' ? args() : args), '--profile', profile], daemon);
			assert.equal(parked.includes(box.id), isPooled, 'made in advance or not');
			assert.equal(await metric('cloche_pool_hits_total'), hits + (isPooled ? 1 : 0));
			assert.equal(await metric('cloche_claim_failures_total'), failures);
			// Its disk is of the usual kind.
			const isBlank = daemon === blank && profile === 'default';
			assert.equal(await metric('cloche_blanks_hits_total', blank), wasBlank + (isBlank ? 1 : 0));
			assert.equal(await metric('cloche_claim_failures_total', blank), 0);
			const inside = await daemon.exec(box.id, inspection, user ? { user } : {});
			const { limits, mounts, env, labels, cwd, name } = box;
			const sources = mounts?.map(({ target, readOnly }) => ({ target, readOnly }));
			const text = (what) => JSON.stringify(what).replaceAll(box.id, 'ID');
			shown.push({
				api: text({ limits, sources, env, labels, cwd, user: box.user, name }),
				inside: inside.stdout.replaceAll(box.id, 'ID').replaceAll(/([ug]id)=1\d{9}|\/dev\/loop\d+/g, '$1'),
				limits: limitsOf(box.id),
			});
			await remove(box.id, daemon);
		}
		return shown;
	}

	async function alike(args, check, options = {}) {
		const [pooled, built, filledIn] = await both(args, options);
		assert.equal(filledIn.api, built.api);
		assert.deepEqual(filledIn.inside.split('\n'), built.inside.split('\n'));
		assert.deepEqual(filledIn.limits, built.limits);
		assert.equal(pooled.api, built.api);
		assert.deepEqual(pooled.inside.split('\n'), built.inside.split('\n'));
		assert.deepEqual(pooled.limits, built.limits);
		check?.(pooled);
	}

	before(async () => {
		cloche = await Daemon.start({ config: config(POOL, 1) });
		plain = await Daemon.start({ config: config(0, 0) });
		blank = await Daemon.start({ config: config(0, 0, BLANKS) });
		ours = path.join(cloche.folder, 'ours');
		fs.mkdirSync(ours);
	});
	after(async () => {
		await cloche?.stop();
		await plain?.stop();
		await blank?.stop();
	});

	test('nothing', () => alike([]));
	test('name', () => alike(['--name', 'called'], ({ inside }) => assert.match(inside, /^called\ncalled\n127\.0\.0\.1\tlocalhost called$/m)));
	test('hostname', () => alike(['--name', 'one', '--hostname', 'two-three'], ({ inside }) => assert.match(inside, /^two-three\n/)));
	test('env', () => alike(['-e', 'WHO=me'], ({ inside }) => assert.match(inside, /^WHO=me$/m)));
	test('cwd, user and labels', () => alike(['-w', '/tmp', '-u', 'root', '-l', 'a=b'], ({ inside, api }) => {
		assert.match(inside, /^uid=0\(root\)/m);
		assert.match(inside, /^\/tmp$/m);
		assert.match(api, /"labels":\{"a":"b"\}/);
	}));
	test('memory, less', () => alike(['-m', '64M'], ({ inside }) => assert.match(inside, new RegExp(`^ *${16 << 20} .* /dev/shm$`, 'm'))));
	test('memory, more', () => alike(['-m', '3G']));
	test('cpu', () => alike(['--cpu', '0.5']));
	test('processes', () => alike(['--pids', '33']));
	test('open files', () => alike(['--nofile', '77'], ({ inside }) => assert.match(inside, /nofile\S* +77$/m)));
	test('more open files', () => alike(['--nofile', '9999'], ({ inside }) => assert.match(inside, /nofile\S* +9999$/m)));
	test('everything at once', () => {
		const folder = fresh('all', OWNER);
		return alike(['--name', 'all', '-m', '256M', '--cpu', '1', '--pids', '64', '--nofile', '100', '-e', 'A=b', '-w', '/mnt', '-v', `${folder}:/mnt:rw`]);
	});

	const memory = { profile: 'memory' };
	test('a disk in memory', () => alike(['--disk', '64M', '--inodes', '500'], ({ inside }) => assert.match(inside, /^ *67108864 +500 \/$/m), memory));
	test('a disk in memory, and less of it', () => alike(['-m', '64M'], ({ inside }) => assert.match(inside, /^ *33554432 .* \/$/m), memory));
	test('a disk in memory, and more of it', () => alike(['-m', '5G', '--disk', '4G', '--name', 'large'], undefined, memory));

	test('a disk that keeps its size is made for the request', async (t) => {
		await filled();
		const parked = folders();
		const box = await create(['--disk', '64M']);
		await remove(box.id);
		assert.equal(parked.includes(box.id), box.isolation.disk !== 'loop');
	});

	const places = { agent: ['/mnt', '/workspace', '/mnt/deep/er', '/fresh', '/fresh/deep'], root: ['/workspace', '/fresh'] };
	for (const [user, targets] of Object.entries(places))
		for (const mode of ['', ':rw'])
			for (const target of targets)
				test(`folder at ${target}${mode}, seen by ${user}`, () => {
					const folder = fresh('folder', OWNER);
					return alike(
						['-v', `${folder}:${target}${mode}`],
						({ inside }) => {
							assert.match(inside, /^seed of folder$/m);
							const written = new RegExp(`^-rw-r--r-- \\S+ \\S+\n(.*\n)?seed of folder\n${target} 0$`, 'm');
							if (user === 'agent') assert.equal(written.test(inside), mode === ':rw', inside);
						},
						{ user },
					);
				});

	test('a folder of root', () => alike(['-v', `${fresh('roots')}:/mnt:rw`]));
	test('several, one in another', () => {
		const [outer, inner, last] = [fresh('outer', OWNER), fresh('inner', OWNER), fresh('last', OWNER)];
		fs.mkdirSync(path.join(outer, 'nested'));
		fs.mkdirSync(path.join(outer, 'sub'));
		return alike(['-v', `${outer}:/workspace:rw`, '-v', `${inner}:/workspace/nested`, '-v', `${last}:/srv:rw`]);
	});
	for (const mode of ['', ':rw'])
		test(`a file${mode}`, () => alike(() => ['-v', `${path.join(fresh('filed', OWNER), 'seed')}:/mnt/file${mode}`], ({ inside }) => assert.match(inside, /^seed of filed$/m)));

	test('what is synced in a sandbox that stays is on the disk; one for a command has no need', async () => {
		const options = async (daemon, argv) => (await daemon.ok(argv)).trim();
		const look = ['--', 'sh', '-c', "awk '$2 == \"/workspace\" && $3 == \"ext4\" { print $4 }' /proc/mounts"];
		for (const daemon of [cloche, plain, blank]) {
			await filled();
			const once = await options(daemon, ['run', ...look]);
			if (!once) return; // another kind of disk
			assert.match(once, /nobarrier/);
			await filled();
			const { id } = await create([], daemon);
			assert.doesNotMatch(await options(daemon, ['sandbox', 'exec', id, ...look]), /nobarrier/);
			await daemon.ok(['sandbox', 'stop', id]);
			await daemon.ok(['sandbox', 'start', id]);
			assert.doesNotMatch(await options(daemon, ['sandbox', 'exec', id, ...look]), /nobarrier/);
			await remove(id, daemon);
		}
	});

	test('limits act', async () => {
		await filled();
		const parked = folders();
		const box = await create(['-m', '64M', '--pids', '20', '--nofile', '50']);
		assert.ok(parked.includes(box.id));
		const eater = await cloche.exec(box.id, ['perl', '-e', 'my $x = "x" x (200 << 20); print length $x']);
		assert.equal(eater.reason, 'oom');
		const files = await cloche.exec(box.id, ['perl', '-e', 'my @f; while (open(my $h, "<", "/dev/null")) { push @f, $h } print scalar(@f)']);
		assert.ok(Number(files.stdout) < 50, files.stdout);
		const forks = await cloche.exec(box.id, 'for i in $(seq 60); do sleep 2 & done 2>&1; wait');
		assert.match(forks.stdout + forks.stderr, /fork|Resource/i);
		await remove(box.id);
	});

	test('what cannot be mounted is refused as ever, and leaves nothing', async () => {
		await filled();
		const folder = fresh('bad', OWNER);
		const file = path.join(folder, 'seed');
		const refusals = [
			`${folder}:/etc/passwd`, `${file}:/mnt`, `${folder}:/proc`, `${folder}:/proc/self`, `${folder}:/dev/shm`,
			`${folder}:/run/cloche`, `${folder}:/`, `${folder}:/usr/nosuch/place`,
		];
		for (const mount of refusals) {
			const said = [];
			for (const daemon of [cloche, plain]) {
				await filled();
				const result = await daemon.cli(['sandbox', 'create', '-v', mount]);
				assert.notEqual(result.code, 0, mount);
				said.push(`${result.code} ${result.stderr.replaceAll(/sb_\w+/g, 'ID')}`);
			}
			assert.equal(said[0], said[1], mount);
		}
		await filled();
		assert.deepEqual((await cloche.get('GET', '/sandboxes')).items, []);
		await until(() => folders().length === STOCK, 'only the stock is there');
		assert.deepEqual(fs.readdirSync(folder), ['seed']);
	});

	test('a grant is used once, also by one that is bound', async () => {
		await filled();
		const box = await create(['-v', `${fresh('once')}:/mnt`]);
		const { grant } = (await cloche.get('GET', `/sandboxes/${box.id}`)).mounts[0];
		assert.ok(grant);
		const again = await cloche.api('POST', '/sandboxes', { mounts: [{ grant, target: '/mnt' }] });
		assert.equal(again.status, 404);
		await remove(box.id);
	});

	test('what was bound is there after a stop and a start', async () => {
		await filled();
		const parked = folders();
		const box = await create(['--name', 'lasting', '-m', '128M', '-v', `${fresh('lasting', OWNER)}:/mnt:rw`]);
		assert.ok(parked.includes(box.id));
		const look = () => cloche.exec('lasting', 'hostname; cat /mnt/seed; echo x >> /mnt/log && wc -l < /mnt/log; df -B1 --output=size /dev/shm | tail -1');
		const first = await look();
		await cloche.get('POST', '/sandboxes/lasting/stop');
		await cloche.get('POST', '/sandboxes/lasting/start');
		const second = await look();
		assert.equal(second.stdout, first.stdout.replace('\n1\n', '\n2\n'));
		await remove(box.id);
	});

	test('many at once, each its own', async () => {
		await filled();
		const names = Array.from({ length: POOL * 4 }, (_, i) => `many-${i}`);
		const boxes = await Promise.all(names.map((name) => create(['--name', name, '--pids', String(40 + names.indexOf(name))])));
		const said = await Promise.all(names.map((name) => cloche.exec(name, 'hostname')));
		assert.deepEqual(said.map((one) => one.stdout.trim()), names);
		boxes.forEach((box, i) => assert.match(JSON.stringify(limitsOf(box.id)), new RegExp(`"${40 + i}\\\\n"`)));
		await Promise.all(boxes.map((box) => remove(box.id)));
	});

	const keepers = () => folders().map((id) => Number(/^pid=(\d+)$/m.exec(fs.readFileSync(path.join(cloche.state, 'sandboxes', id, 'keeper'), 'utf8'))[1]));
	const helpers = () => host.descendants(cloche.child.pid).filter((one) => one.comm === 'cloche-bind').map((one) => one.pid);
	const victims = {
		keeper: (stopped) => stopped,
		init: (stopped) => host.allProcesses().filter((one) => stopped.includes(one.ppid)).map((one) => one.pid),
		helper: helpers,
		daemon: () => [cloche.daemonProcess().pid],
		'daemon and helper': () => [cloche.daemonProcess().pid, ...helpers()],
	};
	for (const [victim, find] of Object.entries(victims))
		test(`the ${victim} dies while it is bound`, { timeout: 90000 }, async () => {
			await filled();
			const folder = fresh('victim');
			const name = `victim-${victim.replaceAll(' ', '-')}`;
			const stopped = keepers();
			for (const pid of stopped) process.kill(pid, 'SIGSTOP'); // it cannot answer K_BIND
			const asked = cloche.cli(['-o', 'json', 'sandbox', 'create', '--name', name, '-v', `${folder}:/mnt`, '-m', '100M']);
			await until(() => helpers().length > 0, 'somebody binds it');
			for (const pid of find(stopped)) process.kill(pid, 'SIGKILL');
			for (const pid of stopped)
				try {
					process.kill(pid, 'SIGCONT');
				} catch {}
			const result = await asked;
			await until(async () => (await cloche.api('GET', '/health').catch(() => null))?.status === 200, 'the daemon is there');
			await filled();
			// Either it is there as it was asked for, or it is not there at all.
			const { items } = await cloche.get('GET', '/sandboxes');
			if (!victim.startsWith('daemon')) assert.equal(result.code, 0, result.stderr);
			assert.equal(items.length, result.code === 0 ? 1 : 0);
			for (const box of items) {
				const { stdout } = await cloche.exec(box.id, 'hostname; cat /mnt/seed; df -B1 --output=size /dev/shm | tail -1');
				assert.deepEqual(stdout.split('\n').map((line) => line.trim()), [name, 'seed of victim', String(25 << 20), '']);
				await remove(box.id);
			}
			await until(() => folders().length === STOCK, 'only the stock is there');
		});

	test('the init dies after it is bound and before the claim', { timeout: 90000 }, async () => {
		await filled();
		const folder = fresh('between');
		const stopped = keepers();
		for (const pid of stopped) process.kill(pid, 'SIGSTOP');
		const asked = cloche.cli(['-o', 'json', 'sandbox', 'create', '--name', 'between', '-v', `${folder}:/mnt`]);
		await until(() => helpers().length > 0, 'somebody binds it');
		const daemon = cloche.daemonProcess();
		process.kill(daemon.pid, 'SIGSTOP'); // it does not hear yet that it is bound
		for (const pid of stopped) process.kill(pid, 'SIGCONT');
		await until(() => helpers().length === 0, 'it is bound');
		for (const one of host.allProcesses().filter((info) => stopped.includes(info.ppid))) process.kill(one.pid, 'SIGKILL');
		await until(() => stopped.every((pid) => !host.processInfo(pid)), 'their keepers end');
		process.kill(daemon.pid, 'SIGCONT');
		const result = await asked;
		assert.equal(result.code, 0, result.stderr);
		assert.equal((await cloche.exec('between', 'cat /mnt/seed')).stdout, 'seed of between\n');
		const { grant } = (await cloche.get('GET', '/sandboxes/between')).mounts[0];
		assert.equal((await cloche.api('POST', '/sandboxes', { mounts: [{ grant, target: '/mnt' }] })).status, 404, 'and it is used once');
		await remove('between');
		await until(() => folders().length === STOCK, 'only the stock is there');
	});

	test('as an ordinary user', { skip: !host.isRoot }, async () => {
		const own = await Daemon.start({ user: host.ordinaryUser, config: '[sandboxes.default]\npool = 1\ndegraded = true\n' });
		try {
			const stock = () => fs.readdirSync(path.join(own.state, 'sandboxes'));
			await until(async () => /^cloche_pool_ready\S* 1$/m.test(String((await call(own.socket, 'GET', '/metrics')).bytes)), 'one is ready');
			const parked = stock();
			const folder = path.join(own.user.home, 'given');
			fs.mkdirSync(folder);
			fs.chownSync(folder, own.user.uid, own.user.gid);
			const id = (await own.ok(['sandbox', 'create', '--name', 'bound', '--nofile', '99', '-v', `${folder}:/workspace:rw`])).trim();
			assert.ok(parked.includes(id));
			const { stdout } = await own.exec(id, 'hostname; cat /etc/hostname; ulimit -n; echo x > made; ls');
			assert.equal(stdout, 'bound\nbound\n99\nmade\n');
			assert.deepEqual(fs.readdirSync(folder), ['made']);
			await own.stop();
		} finally {
			await own.discard();
		}
	});
});
