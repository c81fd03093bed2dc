// The machine around the program: processes, control groups, mounts. Used to prove that nothing
// is left behind, and to hurt the program on purpose.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';

export const isRoot = process.getuid() === 0;

function readText(file) {
	try {
		return fs.readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}

/** {pid, ppid, start, comm, state} or null when it is gone or a zombie. */
export function processInfo(pid) {
	const text = readText(`/proc/${pid}/stat`);
	if (!text) return null;
	const comm = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
	const rest = text.slice(text.lastIndexOf(')') + 2).split(' ');
	if (rest[0] === 'Z' || rest[0] === 'X') return null;
	return { pid: Number(pid), state: rest[0], ppid: Number(rest[1]), start: rest[19], comm };
}

export function allProcesses() {
	return fs
		.readdirSync('/proc')
		.filter((name) => /^\d+$/.test(name))
		.map(processInfo)
		.filter(Boolean);
}

export const isAlive = (info) => processInfo(info.pid)?.start === info.start;

/** All processes below one, itself included. */
export function descendants(pid) {
	const all = allProcesses();
	const found = all.filter((info) => info.pid === pid);
	for (let i = 0; i < found.length; i++) found.push(...all.filter((info) => info.ppid === found[i].pid));
	return found;
}

export const commandLine = (pid) => readText(`/proc/${pid}/cmdline`).split('\0').slice(0, -1);

export function residentBytes(pid) {
	const line = /^VmRSS:\s+(\d+) kB/m.exec(readText(`/proc/${pid}/status`));
	return line ? Number(line[1]) * 1024 : 0;
}

export const openFiles = (pid) => fs.readdirSync(`/proc/${pid}/fd`).length;

/** Mount points of all control group hierarchies. */
export function cgroupMounts() {
	return readText('/proc/self/mounts')
		.split('\n')
		.map((line) => line.split(' '))
		.filter((fields) => fields[2] === 'cgroup' || fields[2] === 'cgroup2')
		.map((fields) => ({ path: fields[1], version: fields[2] === 'cgroup2' ? 2 : 1, options: fields[3] }));
}

function* folders(top, depth) {
	let entries;
	try {
		entries = fs.readdirSync(top, { withFileTypes: true });
	} catch {
		return;
	}
	for (const entry of entries) {
		if (!entry.isDirectory()) continue;
		const full = path.join(top, entry.name);
		yield full;
		if (depth > 0) yield* folders(full, depth - 1);
	}
}

/** Every control group folder whose path has a component that matches one of the names. */
export function cgroupsNamed(names) {
	const found = [];
	for (const mount of cgroupMounts())
		for (const folder of folders(mount.path, 6))
			if (folder.split('/').some((part) => names.includes(part))) found.push(folder);
	return found;
}

/** The part of a sandbox's control groups where commands run: below the others, where there are others. */
export const workGroups = (id) =>
	cgroupsNamed([id]).filter((one) => one.endsWith(`/${id}/work`) || (one.endsWith(`/${id}`) && !fs.existsSync(`${one}/work`)));

/** Lines of this process's mount table that mention a text. */
export const mountsWith = (text) =>
	readText('/proc/self/mountinfo')
		.split('\n')
		.filter((line) => line.includes(text));

/** An unused uid with a home of its own below `folder`. */
export function ordinaryUser(folder) {
	const used = new Set(readText('/etc/passwd').split('\n').map((line) => Number(line.split(':')[2])));
	let uid = 47000 + (process.pid % 1000);
	while (used.has(uid)) uid++;
	const home = path.join(folder, 'home');
	fs.mkdirSync(home, { recursive: true, mode: 0o700 });
	fs.chownSync(home, uid, uid);
	return { uid, gid: uid, home, env: { HOME: home, PATH: process.env.PATH, USER: `u${uid}` } };
}

export const sha256 = (file) => execFileSync('sha256sum', [file]).toString().split(' ')[0];

/** Regular files below a folder that hold one of the words, sparse ones as well. */
export function filesWith(folder, words) {
	const script = path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), 'search.py');
	return execFileSync('python3', [script, folder, ...words], { encoding: 'utf8' }).split('\n').filter(Boolean);
}
