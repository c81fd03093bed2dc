// make soak MINUTES=n: sandboxes come and go for a long time while things are killed. Prints what
// the machine holds every 30 s; the end compares the first tenth with the last.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';

import { openFiles, residentBytes, sleep, until } from '../integration/lib.mjs';
import { endOnSignal, ERRNO, HurtDaemon, random } from './lib.mjs';
import { clocheGroups, loopFiles, namespacesOf, processesInside, processesOf } from './machine.mjs';

const { values } = parseArgs({ options: { minutes: { type: 'string' }, seed: { type: 'string' } } });
const minutes = Number(values.minutes ?? 10);
const seed = Number(values.seed ?? 1);
const chance = random(seed);
const WORKERS = 3;
const KEPT = 4;
const POOL = 4;

endOnSignal();
const daemon = await HurtDaemon.start({ pool: POOL });
const start = Date.now();
const end = start + minutes * 60000;
const kept = new Set();
const latencies = []; // [ms since the start, ms it took]
const others = []; // the same of a program that has nothing to do with us: how busy the machine is
let creates = 0;
let cut = 0;
let kills = 0;

/* Now and then all stand still, so that what is there can be counted. */
let isQuiet = false;
let active = 0;

/** Does something again and again, but while it is quiet. */
async function often(once) {
	while (Date.now() < end) {
		if (isQuiet) {
			await sleep(20);
			continue;
		}
		active++;
		try {
			await once();
		} finally {
			active--;
		}
	}
}

async function quietly(look) {
	isQuiet = true;
	try {
		await until(() => active === 0, 'everybody stands still', 90000);
		return await look();
	} finally {
		isQuiet = false;
	}
}

/** create → exec → gone, timed; some stay a while. */
async function work() {
	const began = performance.now();
	const made = await daemon.ask('POST', '/sandboxes', {});
	if (made?.status !== 201) {
		cut++;
		return sleep(50);
	}
	const { id } = made.body;
	const ran = await daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'echo $$ > /workspace/f; cat /workspace/f' });
	if (ran?.status === 200 && ran.body.reason === 'exited') {
		assert.equal(ran.body.exitCode, 0);
		latencies.push([Date.now() - start, performance.now() - began]);
	}
	creates++;
	if (kept.size < KEPT && chance() < 0.3) {
		await daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'while :; do echo tick; sleep 1; done', background: true });
		kept.add(id);
		return;
	}
	if (kept.size && chance() < 0.05) {
		const [old] = kept;
		kept.delete(old);
		await daemon.ask('DELETE', `/sandboxes/${old}?force=1`);
	}
	await daemon.ask('DELETE', `/sandboxes/${id}?force=1`);
}

/** What else runs on the machine makes everything slower, this too. */
async function compare() {
	while (Date.now() < end) {
		const began = performance.now();
		await once(spawn('/bin/true', { stdio: 'ignore' }), 'exit');
		others.push([Date.now() - start, performance.now() - began]);
		await sleep(200);
	}
}

/** Now and then somebody dies, or something fails. */
async function hurt() {
	const due = Date.now() + 2000 + chance() * 6000;
	while (Date.now() < due && !isQuiet) await sleep(50);
	if (isQuiet) return;
	const which = chance();
	if (which < 0.4) {
		process.kill(daemon.daemonProcess().pid, 'SIGKILL');
	} else if (which < 0.7) {
		const alive = daemon.keepers();
		if (alive.length) process.kill(alive[Math.floor(chance() * alive.length)].pid, 'SIGKILL');
	} else if (which < 0.9) {
		const calls = ['openat', 'write', 'mount', 'fsync', 'clone', 'clone3'];
		await daemon.inject(`fail any ${calls[Math.floor(chance() * calls.length)]} ${1 + Math.floor(chance() * 50)} ${ERRNO.EIO}`);
		await sleep(300);
		await daemon.calm();
	} else {
		daemon.child.kill('SIGKILL');
		await daemon.ended;
	}
	kills++;
	await daemon.recover();
}

const memory = (role) => daemon.processes(role).reduce((sum, info) => sum + residentBytes(info.pid), 0) / 1048576;
const lines = (file) => fs.readFileSync(file, 'utf8').trim().split('\n').length;

function inodes(folder) {
	let count = 0;
	for (const entry of fs.readdirSync(folder, { withFileTypes: true, recursive: true })) count += entry.name ? 1 : 0;
	return count;
}

/** Of all kinds, that any process of ours is in or holds. */
const namespaces = () => namespacesOf([...processesOf(daemon), ...processesInside(daemon.everIds)].map((info) => info.pid)).size;

const between = (from, to, list = latencies) =>
	list
		.filter(([at]) => at >= from && at < to)
		.map(([, ms]) => ms)
		.sort((a, b) => a - b);
const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

/** What there is, once nothing is stray. */
async function sample() {
	for (const row of await daemon.settle()) {
		// one whose removal was cut off, or whose keeper was killed: nobody asks for it any more
		if (kept.has(row.id) && row.state === 'running') continue;
		kept.delete(row.id);
		await daemon.ask('DELETE', `/sandboxes/${row.id}?force=1`);
	}
	await daemon.filled();
	const rows = await daemon.assertKnown();
	const groups = clocheGroups().reduce((sum, folder) => sum + fs.readdirSync(folder).filter((id) => daemon.everIds.has(id)).length, 0);
	const recent = between(samples.at(-1)?.at ?? 0, Date.now() - start);
	const { pid } = daemon.daemonProcess();
	return {
		at: Date.now() - start,
		minute: (Date.now() - start) / 60000,
		rows: rows.length,
		daemon: memory('cloched'),
		broker: residentBytes(daemon.child.pid) / 1048576,
		fds: openFiles(pid),
		brokerFds: openFiles(daemon.child.pid),
		mounts: lines('/proc/self/mountinfo'),
		brokerMounts: lines(`/proc/${daemon.child.pid}/mountinfo`),
		namespaces: namespaces(),
		processes: processesOf(daemon).length,
		cgroups: groups,
		loops: loopFiles(daemon).length,
		inodes: inodes(daemon.state),
		median: quantile(recent, 0.5),
		p99: quantile(recent, 0.99),
	};
}

const show = (row) =>
	Object.entries(row)
		.slice(1)
		.map(([name, value]) => `${name} ${Number.isInteger(value) ? value : value.toFixed(1)}`)
		.join('  ');

const samples = [];
async function watch() {
	const every = Math.min(30000, (minutes * 60000) / 20);
	while (Date.now() < end) {
		await sleep(every);
		samples.push(await quietly(sample));
		console.log(show(samples.at(-1)), ` creates ${creates} kills ${kills}`);
	}
}

/** Grows: the last tenth is above the first by more than noise. */
const SLACK = { rows: 8, daemon: 12, broker: 4, fds: 40, brokerFds: 20, mounts: 4, brokerMounts: 4, namespaces: 30, processes: 30, cgroups: 60, loops: 8, inodes: 400 };

function verdict() {
	const tenth = Math.max(1, Math.round(samples.length / 10));
	const mean = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0) / rows.length;
	const first = samples.slice(0, tenth);
	const last = samples.slice(-tenth);
	const grown = Object.keys(SLACK).filter((name) => mean(last, name) > mean(first, name) + SLACK[name]);
	const time = minutes * 60000;
	const tenths = (list) => [quantile(between(0, time / 10, list), 0.5), quantile(between((time * 9) / 10, time, list), 0.5)];
	const medians = tenths(latencies);
	const beside = tenths(others);
	for (const name of Object.keys(SLACK)) console.log(`${name}: ${mean(first, name).toFixed(1)} → ${mean(last, name).toFixed(1)}${grown.includes(name) ? '  GROWS' : ''}`);
	const show = (list) => list.map((ms) => ms.toFixed(1)).join(' → ');
	const slower = medians[1] / medians[0] / Math.max(1, beside[1] / beside[0]);
	if (slower > 1.5) grown.push('latency');
	console.log(`median of create and exec, first and last tenth: ${show(medians)} ms; of /bin/true beside it ${show(beside)} ms${slower > 1.5 ? '  SLOWER' : ''}`);
	return grown;
}

try {
	console.log(`soak: ${minutes} minutes, seed ${seed}`);
	await Promise.all([...Array.from({ length: WORKERS }, () => often(work)), often(hurt), watch(), compare()]);
	await daemon.clear();
	await daemon.end();
	const grown = verdict();
	console.log(`${creates} sandboxes, ${kills} faults, ${cut} refused or cut off: ${grown.length ? `NOT flat: ${grown}` : 'flat'}`);
	process.exitCode = grown.length ? 1 : 0;
} finally {
	await daemon.discard();
}
