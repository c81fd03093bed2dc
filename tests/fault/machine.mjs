// What is on the machine of one daemon: processes, namespaces, mounts, control groups, descriptors,
// loop devices, files. Each look gives texts for what the store does not know; [] is right.
import fs from 'node:fs';
import path from 'node:path';

import { allProcesses, cgroupMounts, commandLine, descendants, isAlive, mountsWith } from '../integration/lib.mjs';

export function readText(file) {
	try {
		return fs.readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}

const readLink = (file) => {
	try {
		return fs.readlinkSync(file);
	} catch {
		return '';
	}
};

const list = (folder) => {
	try {
		return fs.readdirSync(folder);
	} catch {
		return [];
	}
};

/** What the descriptors of a process lead to. */
export const openLinks = (pid) => list(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`));

let groups = [];

/** Folders of control groups that hold sandboxes. */
export function clocheGroups() {
	if (groups.length && groups.every((folder) => fs.existsSync(folder))) return groups;
	groups = [];
	const look = (folder, depth) => {
		let entries = [];
		try {
			entries = fs.readdirSync(folder, { withFileTypes: true });
		} catch {}
		for (const entry of entries) {
			if (!entry.isDirectory()) continue;
			if (entry.name === 'cloche') groups.push(path.join(folder, entry.name));
			else if (depth > 0) look(path.join(folder, entry.name), depth - 1);
		}
	};
	for (const mount of cgroupMounts()) look(mount.path, 3);
	return groups;
}

const sandboxOf = (pid) => /\/cloche\/(sb_\w+)/.exec(readText(`/proc/${pid}/cgroup`))?.[1];

/** Processes in the control groups of these sandboxes: {pid, comm, id, group}. */
export function processesInside(ids) {
	const found = new Map();
	for (const folder of clocheGroups())
		for (const id of list(folder).filter((name) => ids.has(name)))
			for (const group of ['.', 'keeper', 'init', 'work'])
				for (const pid of readText(path.join(folder, id, group, 'cgroup.procs')).split('\n').filter(Boolean))
					if (!found.has(pid)) found.set(pid, { pid: Number(pid), comm: readText(`/proc/${pid}/comm`).trim(), id, group });
	return [...found.values()];
}

/** Processes of the daemon's own: below its broker, or with the output of a broker that is gone. */
export function processesOf(daemon) {
	const below = new Set(daemon.isServing() ? descendants(daemon.child.pid).map((info) => info.pid) : []);
	return allProcesses()
		.map((info) => ({ ...info, isBelow: below.has(info.pid) }))
		.filter((info) => info.isBelow || daemon.outputs.has(readLink(`/proc/${info.pid}/fd/1`)))
		.filter((info) => info.comm !== 'inject' && info.pid !== process.pid);
}

const KINDS = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts'];

const NAMESPACE = /^(?!socket|pipe)([a-z]+):\[\d+\]$/;

/** The namespaces these processes are in or hold open, as "net:[4026…]". */
export function namespacesOf(pids) {
	const found = new Set();
	for (const pid of pids) {
		for (const kind of KINDS) found.add(readLink(`/proc/${pid}/ns/${kind}`));
		for (const target of openLinks(pid)) if (NAMESPACE.test(target)) found.add(target);
	}
	found.delete('');
	return found;
}

/** Files under loop devices. When the broker that made one is gone, so is the way to its file: what
 * is left of the path still names the sandbox. */
export function loopFiles(daemon) {
	return list('/sys/block')
		.filter((name) => name.startsWith('loop'))
		.map((name) => readText(`/sys/block/${name}/loop/backing_file`).trim())
		.filter((file) => file.startsWith(daemon.folder) || daemon.everIds.has(/sb_\w+/.exec(file)?.[0]));
}

/** Id ranges that are taken for sandboxes of this state directory: their ids. */
function slots(state) {
	return list('/run/cloche/slots')
		.map((name) => readLink(path.join('/run/cloche/slots', name)))
		.filter((target) => target.startsWith(`${state}/`))
		.map((target) => path.basename(target));
}

/** Roles that are there once each as long as the broker runs. */
const STAYING = new Set(['cloched', 'cloche:broker', 'cloche:launch', 'cloche:tasks', 'cloche:dialer', 'cloche:runner']);

function strayProcesses({ own, inside }, isFine, execs) {
	const found = [];
	for (const info of inside) if (!isFine(info.id)) found.push(`process ${info.pid} ${info.comm} of ${info.id}`);
	for (const id of new Set(inside.filter((info) => isFine(info.id)).map((info) => info.id))) {
		const names = inside.filter((info) => info.id === id).map((info) => info.comm);
		for (const role of ['cloche-keeper', 'cloche-init', 'cloche-spawn']) {
			const count = names.filter((name) => name === role).length;
			if (count !== 1) found.push(`${count} × ${role} in ${id}`);
		}
		const commands = names.filter((name) => !/^cloche-(keeper|init|spawn)$/.test(name));
		const isWaiting = commands.length === 1 && commands[0] === 'cloche-shim'; // for the next command
		if (commands.length && !isWaiting && !execs.has(id)) found.push(`commands ${commands} in ${id}, which runs none`);
	}
	const known = new Set(inside.map((info) => info.pid));
	const counts = new Map();
	for (const info of own) {
		if (known.has(info.pid) || sandboxOf(info.pid) || !isAlive(info)) continue;
		const line = commandLine(info.pid);
		const name = line.includes('worker') ? 'worker' : line[0]?.endsWith('cloched') ? 'cloched' : info.comm;
		if (!info.isBelow) found.push(`process ${info.pid} ${name} of a broker that is gone`);
		else if (!STAYING.has(name)) found.push(`process ${info.pid} ${name} below the broker`);
		else counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	for (const [name, count] of counts) if (count > 1) found.push(`${count} × ${name}`);
	return found;
}

/** Empty ones that the launch zygote keeps open for all keepers: one of a kind, not more. */
function keptNamespaces(own) {
	const kept = new Map();
	for (const { pid } of own.filter((info) => info.comm === 'cloche:launch'))
		for (const target of openLinks(pid)) if (NAMESPACE.test(target) && !kept.has(`${pid} ${NAMESPACE.exec(target)[1]}`)) kept.set(`${pid} ${NAMESPACE.exec(target)[1]}`, target);
	return kept.values();
}

/** Namespaces that neither the daemon's own processes nor living sandboxes account for. */
function strayNamespaces({ own, inside }, isFine) {
	const pids = own.map((info) => info.pid);
	const fine = namespacesOf(inside.filter((info) => isFine(info.id)).map((info) => info.pid));
	const plain = new Set(pids.filter((pid) => !sandboxOf(pid)).flatMap((pid) => KINDS.map((kind) => readLink(`/proc/${pid}/ns/${kind}`))));
	for (const name of keptNamespaces(own)) plain.add(name);
	return [...namespacesOf(pids)].filter((name) => !fine.has(name) && !plain.has(name)).map((name) => `namespace ${name}`);
}

function strayMounts(daemon) {
	const found = mountsWith(daemon.folder)
		.filter(() => !daemon.ownMount)
		.map((line) => `mount ${line}`);
	if (!daemon.isServing()) return found;
	const places = readText(`/proc/${daemon.child.pid}/mountinfo`)
		.split('\n')
		.map((line) => line.split(' '))
		.filter((fields) => fields[4]?.startsWith(daemon.folder) || fields.includes('nsfs'));
	for (const fields of places) if (![daemon.state, path.join(daemon.state, 'program')].includes(fields[4])) found.push(`mount of the broker: ${fields.join(' ')}`);
	return found;
}

/** Everything below the state directory but the inside of what has a row, and the database. */
export function files(daemon, known) {
	const found = [];
	const walk = (folder, depth) => {
		for (const name of list(path.join(daemon.state, folder))) {
			const place = path.join(folder, name);
			if (folder === 'sandboxes' ? known.has(name) : folder === 'run' && known.has(name.replace(/\.sock$/, ''))) continue;
			found.push(place);
			if (depth > 0 && fs.statSync(path.join(daemon.state, place), { throwIfNoEntry: false })?.isDirectory()) walk(place, depth - 1);
		}
	};
	walk('', 1);
	return found.filter((name) => !/^cloche\.db/.test(name)).sort();
}

/** What the store does not know. `execs`: ids of sandboxes in which a command runs. */
export function strays(daemon, rows, execs = new Set()) {
	const known = new Set(rows.map((row) => row.id));
	const alive = new Set(rows.filter((row) => ['running', 'stopping', 'creating'].includes(row.state)).map((row) => row.id));
	const folders = list(path.join(daemon.state, 'sandboxes'));
	const nobodys = folders.filter((id) => !known.has(id));
	const parked = new Set(daemon.pool ? nobodys : []);
	for (const id of [...folders, ...known]) daemon.everIds.add(id);
	const isFine = (id) => alive.has(id) || parked.has(id);
	const found = nobodys.length > daemon.pool ? nobodys.map((id) => `folder ${id}`) : [];

	for (const name of list(path.join(daemon.state, 'run')))
		if (name.startsWith('sb_') && !isFine(name.replace(/\.sock$/, ''))) found.push(`socket ${name}`);
	for (const group of clocheGroups())
		for (const id of list(group)) if (daemon.everIds.has(id) && !isFine(id)) found.push(`cgroup ${path.join(group, id)}`);
	for (const file of loopFiles(daemon)) if (![...alive, ...parked].some((id) => file.includes(id))) found.push(`loop device of ${file}`);
	for (const id of slots(daemon.state)) if (!known.has(id) && !parked.has(id)) found.push(`id range of ${id}`);
	for (const id of alive) if (!folders.includes(id)) found.push(`no folder of ${id}, which is alive`);
	const processes = { own: processesOf(daemon), inside: processesInside(daemon.everIds) };
	const kept = new Set(processes.inside.map((info) => info.id));
	for (const id of alive) if (!kept.has(id)) found.push(`no process of ${id}, which is alive`);
	found.push(...strayMounts(daemon), ...strayProcesses(processes, isFine, execs), ...strayNamespaces(processes, isFine));
	return found;
}
