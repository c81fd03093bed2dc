// What a user would choose instead. Each peer says how it is started, or why it is left out.
import fs from 'node:fs';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { cgroupMounts, repo } from '../integration/lib.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const view = path.join(here, 'cgroup-view');
const TRUE = '/bin/true';
const IMAGE = 'cloche-bench';

const run = (file, args, options) => spawnSync(file, args, { encoding: 'utf8', ...options });
const has = (name) => run('sh', ['-c', `command -v ${name}`]).status === 0;
const lastLine = (text) => text.trim().split('\n').pop();

const BWRAP_HOST = ['--unshare-all', '--ro-bind', '/', '/', '--tmpfs', '/tmp', '--proc', '/proc', '--dev', '/dev'];
const BWRAP_USR = [
	...['--unshare-all', '--ro-bind', '/usr', '/usr'],
	...['--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64'],
	...['--tmpfs', '/tmp', '--proc', '/proc', '--dev', '/dev', '--die-with-parent', '--new-session'],
];

// The calls our own filter allows; its conditions on arguments are left out, in the peer's favour.
function seccompProfile() {
	const text = fs.readFileSync(path.join(repo, 'src/os/seccomp_workload.def'), 'utf8');
	const rows = [...text.matchAll(/^([A-Z_a-z]+)\((\w+)\)/gm)];
	const names = rows.filter(([, action]) => action === 'ALLOW').map(([, , name]) => name);
	return {
		defaultAction: 'SCMP_ACT_ERRNO',
		defaultErrnoRet: 38,
		architectures: [process.arch === 'arm64' ? 'SCMP_ARCH_AARCH64' : 'SCMP_ARCH_X86_64'],
		syscalls: [{ names, action: 'SCMP_ACT_ALLOW' }],
	};
}

// A bundle that shows the machine's /usr read-only, as our host image does, with the hardening
// that a sandbox of ours has by default and that the runtime knows.
function writeBundle(bundle, args) {
	for (const name of ['usr', 'proc', 'dev', 'tmp', 'etc', 'sys'])
		fs.mkdirSync(path.join(bundle, 'rootfs', name), { recursive: true });
	for (const name of ['bin', 'lib', 'lib64', 'sbin']) fs.symlinkSync(`usr/${name}`, path.join(bundle, 'rootfs', name));
	run('crun', ['spec'], { cwd: bundle });
	const file = path.join(bundle, 'config.json');
	const spec = JSON.parse(fs.readFileSync(file));
	Object.assign(spec.process, { terminal: false, args, capabilities: {}, noNewPrivileges: true });
	delete spec.process.rlimits; // raising them needs a capability that not every machine's root has
	spec.root.readonly = true;
	spec.mounts = spec.mounts.filter((mount) => mount.type !== 'cgroup');
	spec.mounts.push({ destination: '/usr', source: '/usr', type: 'bind', options: ['bind', 'ro'] });
	if (!spec.linux.namespaces.some((one) => one.type === 'cgroup')) spec.linux.namespaces.push({ type: 'cgroup' });
	spec.linux.cgroupsPath = `/cloche/bench-${path.basename(bundle)}`;
	spec.linux.seccomp = seccompProfile();
	spec.linux.resources = {
		...spec.linux.resources,
		memory: { limit: 2 ** 31 },
		pids: { limit: 512 },
		cpu: { quota: 200000, period: 100000 },
	};
	fs.writeFileSync(file, JSON.stringify(spec));
}

// A root file system for engines that want an image: two programs and their libraries.
function tinyImage(folder) {
	const root = path.join(folder, 'image');
	for (const program of [TRUE, '/bin/sleep']) {
		const files = [program, ...(run('ldd', [program]).stdout.match(/\/\S+/g) ?? [])];
		for (const file of files) {
			fs.mkdirSync(path.join(root, path.dirname(file)), { recursive: true });
			fs.copyFileSync(file, path.join(root, file));
		}
	}
	run('tar', ['-C', root, '-cf', path.join(folder, 'image.tar'), '.']);
	return path.join(folder, 'image.tar');
}

export class Peers {
	constructor(folder) {
		this.folder = folder;
		this.skipped = []; // {name, why}
		this.undo = [];
		this.starts = {}; // name: argv of a new sandbox that runs /bin/true
		this.execs = {}; // name: argv of /bin/true in one that runs
		this.groupsBefore = new Set(this.ownGroups());
	}

	ownGroups() {
		return cgroupMounts()
			.map((mount) => path.join(mount.path, 'cloche'))
			.filter((folder) => fs.existsSync(folder));
	}

	skip(name, why) {
		this.skipped.push({ name, why });
	}

	addBwrap() {
		if (!has('bwrap')) return this.skip('bwrap', 'not installed');
		this.starts['bwrap, host'] = ['bwrap', ...BWRAP_HOST, TRUE];
		this.starts['bwrap, /usr'] = ['bwrap', ...BWRAP_USR, TRUE];
	}

	/** crun or runc: one bundle to run, one that stays for exec. */
	addRuntime(name, { wantsExec }) {
		if (!has(name)) return this.skip(name, 'not installed');
		if (!has('crun')) return this.skip(name, 'its bundle is written by crun, which is not installed');
		const common = [`--root=${this.folder}/${name}`, ...(name === 'crun' ? ['--cgroup-manager=cgroupfs'] : [])];
		const start = [name, ...common, 'run', '-b', path.join(this.folder, `${name}-run`)];
		writeBundle(path.join(this.folder, `${name}-run`), [TRUE]);
		const tried = run(view, [...start, `bench-try-${process.pid}`]);
		if (tried.status !== 0) return this.skip(name, lastLine(tried.stderr));
		this.starts[`${name}, hardened`] = [...start, 'bench-%n'];
		if (!wantsExec) return;
		const id = `bench-exec-${process.pid}`;
		writeBundle(path.join(this.folder, `${name}-exec`), ['/bin/sleep', 'infinity']);
		const started = run(view, [name, ...common, 'run', '-d', '-b', path.join(this.folder, `${name}-exec`), id], {
			stdio: 'ignore',
		});
		if (started.status !== 0) return this.skip(`${name} exec`, `run -d ended with ${started.status}`);
		this.undo.push(() => run(view, [name, ...common, 'delete', '-f', id]));
		this.execs[`${name} exec`] = [name, ...common, 'exec', id, TRUE];
	}

	/** docker or podman, when an engine answers. */
	addEngine(name, { wantsExec }) {
		if (!has(name)) return this.skip(name, 'not installed');
		const command = (...args) => run(view, [name, ...args]);
		const info = command('info');
		if (info.status !== 0 || /Cannot connect/.test(info.stdout + info.stderr)) return this.skip(name, 'no engine answers');
		const limits = ['--memory=2g', '--pids-limit=512', '--cpus=2'];
		const options = ['--network=none', '--ulimit=nofile=1024:1024', '--ulimit=nproc=1024:1024', ...limits];
		const imported = command('import', tinyImage(this.folder), IMAGE);
		if (imported.status !== 0) return this.skip(name, lastLine(imported.stderr));
		this.undo.push(() => command('rmi', '-f', IMAGE));
		const start = ['run', '--rm', ...options, IMAGE, TRUE];
		const tried = command(...start);
		if (tried.status !== 0) return this.skip(name, lastLine(tried.stderr));
		this.starts[name] = [name, ...start];
		if (!wantsExec) return;
		const id = `cloche-bench-${process.pid}`;
		const started = command('run', '-d', '--rm', '--name', id, ...options, IMAGE, '/bin/sleep', 'infinity');
		if (started.status !== 0) return this.skip(`${name} exec`, lastLine(started.stderr));
		this.undo.unshift(() => command('rm', '-f', id));
		this.execs[`${name} exec`] = [name, 'exec', id, TRUE];
	}

	/** Ends what stays, and the control group folders that came to be for it. */
	stop() {
		for (const undo of this.undo) undo();
		for (const folder of this.ownGroups())
			if (!this.groupsBefore.has(folder)) {
				try {
					fs.rmdirSync(folder);
				} catch {} // somebody else's by now
			}
	}
}
