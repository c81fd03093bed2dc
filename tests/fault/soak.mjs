// make soak MINUTES=n: sandboxes come and go for a long time while things are killed. Prints what
// the machine holds every 30 s; the end compares the first tenth with the last.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { openFiles, residentBytes, sleep } from '../integration/lib.mjs';
import { endOnSignal, HurtDaemon, random } from './lib.mjs';
import { clocheGroups } from './machine.mjs';

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
const busy = new Set();
const latencies = []; // [ms since the start, ms it took]
let creates = 0;
let cut = 0;
let kills = 0;

/** create → exec → gone, timed; some stay a while. */
async function work() {
	while (Date.now() < end) {
		const began = performance.now();
		const made = await daemon.ask('POST', '/sandboxes', {});
		if (made?.status !== 201) {
			cut++;
			await sleep(50);
			continue;
		}
		const { id } = made.body;
		busy.add(id);
		const ran = await daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'echo $$ > /workspace/f; cat /workspace/f' });
		if (ran?.status === 200) {
			assert.equal(ran.body.exitCode, 0);
			latencies.push([Date.now() - start, performance.now() - began]);
		}
		creates++;
		if (kept.size < KEPT && chance() < 0.1) {
			await daemon.ask('POST', `/sandboxes/${id}/execs`, { shell: 'while :; do echo tick; sleep 1; done', background: true });
			kept.add(id);
			busy.delete(id);
			continue;
		}
		if (kept.size && chance() < 0.05) {
			const [old] = kept;
			kept.delete(old);
			await daemon.ask('DELETE', `/sandboxes/${old}?force=1`);
		}
		await daemon.ask('DELETE', `/sandboxes/${id}?force=1`);
		busy.delete(id);
	}
}

/** Now and then somebody dies. */
async function hurt() {
	while (Date.now() < end) {
		await sleep(2000 + chance() * 6000);
		const which = chance();
		if (which < 0.4) {
			process.kill(daemon.daemonProcess().pid, 'SIGKILL');
		} else if (which < 0.7) {
			const alive = daemon.keepers();
			if (alive.length) process.kill(alive[Math.floor(chance() * alive.length)].pid, 'SIGKILL');
		} else if (which < 0.9) {
			await daemon.inject(`fail any ${['openat', 'write', 'mount', 'fsync', 'clone', 'clone3'][Math.floor(chance() * 6)]} ${1 + Math.floor(chance() * 50)} 5`);
			await sleep(300);
			await daemon.calm();
		} else {
			daemon.child.kill('SIGKILL');
			await daemon.ended;
		}
		kills++;
		await daemon.recover();
	}
}

const memory = (role) => daemon.processes(role).reduce((sum, info) => sum + residentBytes(info.pid), 0) / 1048576;
const lines = (file) => fs.readFileSync(file, 'utf8').trim().split('\n').length;

function inodes(folder) {
	let count = 0;
	for (const entry of fs.readdirSync(folder, { withFileTypes: true, recursive: true })) count += entry.name ? 1 : 0;
	return count;
}

/** Namespaces of our keepers' children, which are all there is of a sandbox's network. */
function networks() {
	const found = new Set();
	for (const { pid } of daemon.keepers()) {
		try {
			for (const child of fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')) found.add(fs.readlinkSync(`/proc/${child}/ns/net`));
		} catch {}
	}
	return found.size;
}

const between = (from, to) =>
	latencies
		.filter(([at]) => at >= from && at < to)
		.map(([, ms]) => ms)
		.sort((a, b) => a - b);
const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;

/** What there is, once nothing is stray. */
async function sample() {
	const rows = await daemon.assertKnown();
	const groups = clocheGroups().reduce((sum, folder) => sum + [...daemon.everIds].filter((id) => fs.existsSync(path.join(folder, id))).length, 0);
	// whose removal was cut off: nobody asks for it any more
	for (const row of rows) if (!kept.has(row.id) && !busy.has(row.id) && row.state !== 'running') await daemon.ask('DELETE', `/sandboxes/${row.id}?force=1`);
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
		networks: networks(),
		cgroups: groups,
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
		try {
			samples.push(await sample());
			console.log(show(samples.at(-1)), ` creates ${creates} kills ${kills}`);
		} catch (error) {
			// a daemon that was killed under the sample; what is stray is found at the end
			if (!/ECONNREFUSED|ECONNRESET|ENOENT|ESRCH|hang up|not in|runs below/.test(error.message)) throw error;
		}
	}
}

/** Grows: the last tenth is above the first by more than noise. */
const SLACK = { rows: 8, daemon: 12, broker: 4, fds: 40, brokerFds: 20, mounts: 4, brokerMounts: 4, networks: 8, cgroups: 60, inodes: 400 };

function verdict() {
	const tenth = Math.max(1, Math.round(samples.length / 10));
	const mean = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0) / rows.length;
	const first = samples.slice(0, tenth);
	const last = samples.slice(-tenth);
	const grown = Object.keys(SLACK).filter((name) => mean(last, name) > mean(first, name) + SLACK[name]);
	const time = minutes * 60000;
	const medians = [quantile(between(0, time / 10), 0.5), quantile(between((time * 9) / 10, time), 0.5)];
	for (const name of Object.keys(SLACK)) console.log(`${name}: ${mean(first, name).toFixed(1)} → ${mean(last, name).toFixed(1)}${grown.includes(name) ? '  GROWS' : ''}`);
	console.log(`median of create and exec: ${medians.map((ms) => ms.toFixed(1)).join(' → ')} ms`);
	if (medians[1] > medians[0] * 1.5) grown.push('latency');
	return grown;
}

try {
	console.log(`soak: ${minutes} minutes, seed ${seed}`);
	await Promise.all([...Array.from({ length: WORKERS }, work), hurt(), watch()]);
	await daemon.clear();
	await daemon.end();
	const grown = verdict();
	console.log(`${creates} sandboxes, ${kills} faults, ${cut} refused or cut off: ${grown.length ? `NOT flat: ${grown}` : 'flat'}`);
	process.exitCode = grown.length ? 1 : 0;
} finally {
	await daemon.discard();
}
