// Row 6: what a thousand idle sandboxes cost, and whether the next one is as quick as the tenth.
import fs from 'node:fs';

import { descendants, sleep } from '../integration/lib.mjs';
import { latency, line, rate } from './measure.mjs';

const FEW = 10;
const KERNEL = ['SUnreclaim', 'PageTables', 'KernelStack'];

function kernelKiB() {
	const text = fs.readFileSync('/proc/meminfo', 'utf8');
	const value = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
	return Object.fromEntries([...KERNEL, 'Percpu', 'MemAvailable'].map((name) => [name, value(name)]));
}

// Every process of ours: keepers and inits, and the daemon and broker that grow with them.
function pssKiB(daemon) {
	let sum = 0;
	for (const { pid } of descendants(daemon.child.pid)) {
		try {
			const text = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
			sum += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0);
		} catch {} // it ended
	}
	return sum;
}

// The kernel frees late what the making left, and what waits for a first command does so for 5 s.
async function memory(daemon) {
	await sleep(8000);
	return { Pss: pssKiB(daemon), ...kernelKiB() };
}

export async function idle(daemon, { count, rounds }) {
	const keep = line('keep', 'keep', 0, daemon.socket, '{}');
	const make = line('make', 'make', 20, daemon.socket, '{}');
	const options = { rounds, warmUp: 3, env: daemon.env };
	const grow = (more) => rate(keep, { workers: 2, count: more, env: daemon.env });
	const failures = (await grow(FEW)).failures;
	const before = await memory(daemon);
	const few = await latency([make], options);
	const grown = await grow(count - FEW);
	const after = await memory(daemon);
	const many = await latency([make], options);
	const each = Object.fromEntries(Object.keys(after).map((name) => [name, (after[name] - before[name]) / (count - FEW)]));
	const sum = ['Pss', ...KERNEL].reduce((total, name) => total + each[name], 0);
	const parts = ['Pss', ...KERNEL, 'Percpu'].map((name) => `${name} ${each[name].toFixed(0)}`).join(', ');
	return {
		note: `row 6: KiB a sandbox at ${count}: ${parts}; MemAvailable fell by ${(-each.MemAvailable).toFixed(0)}`,
		rows: [
			{
				row: 6,
				what: `${count} idle sandboxes, memory each`,
				unit: 'MiB',
				ours: { median: sum / 1024, failures: failures + grown.failures },
				goal: { most: 1.0 },
			},
			{
				row: 6,
				what: `create, no pool, with ${count} alive`,
				unit: 'ms',
				ours: many.make,
				peer: `with ${FEW} alive`,
				theirs: few.make,
				goal: { most: 1.5 },
			},
		],
	};
}
