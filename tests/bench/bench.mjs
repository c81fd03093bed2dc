// Speed against the peers a user would choose instead, in one run: prints a table in markdown.
// See docs/benchmarks.md. Progress goes to standard error.
//
//	node tests/bench/bench.mjs [--rows 1,3] [--rounds N] [--workers N] [--sandboxes N] [--json FILE]
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { Daemon } from '../integration/lib.mjs';
import { idle } from './idle.mjs';
import { network } from './network.mjs';
import { Peers } from './peers.mjs';
import { BURST_CONFIG, COLD_CONFIG, CONFIG, burst, execs, metric, starts, sustained } from './rows.mjs';
import { work } from './work.mjs';

const { values: options } = parseArgs({
	options: {
		rows: { type: 'string', default: '1,2,3,4,5,6,7,8' },
		rounds: { type: 'string', default: '100' },
		workers: { type: 'string', default: '2' },
		sandboxes: { type: 'string', default: '1000' },
		json: { type: 'string' },
	},
});
const wanted = options.rows.split(',').map(Number);
const rounds = Number(options.rounds);
const workers = Number(options.workers);
const wants = (...rows) => rows.some((row) => wanted.includes(row));

const comparisons = [];
const notes = [];
const say = (text) => process.stderr.write(`${text}\n`);

async function withDaemon(config, measure) {
	const daemon = await Daemon.start({ config, logsToFile: true });
	try {
		await measure(daemon);
	} catch (error) {
		await daemon.discard();
		throw error;
	}
	await daemon.stop();
}

async function asInstalled(daemon, peers) {
	const latencyRows = wanted.filter((row) => row <= 3);
	if (latencyRows.length > 0) {
		say(`rows ${latencyRows}: starts`);
		const measure = (cold) => starts(daemon, cold, peers, { rows: latencyRows, rounds });
		if (wants(2)) await withDaemon(COLD_CONFIG, async (cold) => comparisons.push(...(await measure(cold))));
		else comparisons.push(...(await measure(null)));
		const misses = await metric(daemon, 'cloche_pool_misses_total{profile="default"}');
		if (misses) notes.push(`rows 1 and 3: ${misses} requests found the pool empty`);
	}
	if (wants(4)) {
		say('row 4: exec');
		comparisons.push(...(await execs(daemon, peers, { rounds })));
	}
	if (wants(7)) {
		say('row 7: work inside');
		comparisons.push(...(await work(daemon)));
	}
	if (wants(5)) {
		say('row 5: sustained');
		comparisons.push(...(await sustained(daemon, peers, { workers, seconds: 12, slices: 3 })));
	}
}

async function measureAll(peers) {
	if (wants(1, 2, 3, 4, 5, 7)) await withDaemon(CONFIG, (daemon) => asInstalled(daemon, peers));
	if (wants(5)) {
		say('row 5: burst');
		await withDaemon(BURST_CONFIG, async (daemon) => {
			comparisons.push(...(await burst(daemon, peers, { workers, times: 3 })));
		});
	}
	if (wants(8)) {
		say('row 8: network');
		comparisons.push(...(await network({ count: Number(options.sandboxes) })));
	}
	if (wants(6)) {
		say('row 6: idle sandboxes');
		await withDaemon(COLD_CONFIG, async (daemon) => {
			const { rows, note } = await idle(daemon, { count: Number(options.sandboxes), rounds: 30 });
			comparisons.push(...rows);
			notes.push(note);
		});
	}
}

// --- the table ---

const digits = (value, unit) => (unit === '/s' ? value.toFixed(0) : value.toFixed(2));
const cell = (value, unit) => (value === undefined ? '–' : `${digits(value, unit)} ${unit}`);

/** For rates the 99th percentile is that of the time of one, in ms. */
function judge({ ours, theirs, goal }) {
	const ratio = theirs ? ours.median / theirs.median : ours.median;
	const failures = (ours.failures ?? 0) + (theirs?.failures ?? 0);
	let verdict = '';
	if (goal.most !== undefined) verdict = ratio <= goal.most ? 'holds' : 'misses';
	if (goal.least !== undefined) verdict = ratio >= goal.least ? 'holds' : 'misses';
	if (failures > 0) verdict = `${failures} failed`;
	return { ratio, verdict, failures };
}

function tableRow(one) {
	const { ratio, verdict } = judge(one);
	const slowest = one.unit === '/s' ? 'ms' : one.unit;
	const { most, least } = one.goal;
	const goal = most !== undefined ? `≤ ${most}` : least !== undefined ? `≥ ${least}` : '–';
	const cells = [
		one.row,
		one.what,
		cell(one.ours.median, one.unit),
		cell(one.ours.p99, slowest),
		one.peer ?? '–',
		cell(one.theirs?.median, one.unit),
		cell(one.theirs?.p99, slowest),
		one.theirs ? ratio.toFixed(2) : '–',
		goal,
		verdict,
	];
	return `| ${cells.join(' | ')} |`;
}

function print(peers, seconds) {
	const machine = `${os.cpus().length} × ${os.cpus()[0].model}, Linux ${os.release()}`;
	const load = os.loadavg().map((one) => one.toFixed(1)).join(' ');
	console.log(`${machine}; load ${load}; ${rounds} rounds, 30 ms idle before each, ${workers} workers; ${seconds.toFixed(0)} s\n`);
	console.log('| row | what | ours, median | p99 | peer | median | p99 | ratio | goal | |');
	console.log('|--:|---|--:|--:|---|--:|--:|--:|--:|---|');
	for (const one of comparisons) console.log(tableRow(one));
	console.log();
	for (const note of notes) console.log(`- ${note}`);
	for (const { name, why } of peers.skipped) console.log(`- left out: ${name}: ${why}`);
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-bench-'));
const peers = new Peers(folder);
const start = Date.now();
try {
	peers.addBwrap();
	if (wants(1, 4)) {
		for (const name of ['crun', 'runc']) peers.addRuntime(name, { wantsExec: wants(4) && name === 'crun' });
		for (const name of ['docker', 'podman']) peers.addEngine(name, { wantsExec: wants(4) && name === 'docker' });
	}
	await measureAll(peers);
	comparisons.sort((a, b) => a.row - b.row);
	print(peers, (Date.now() - start) / 1000);
	if (options.json) {
		const rows = comparisons.map((one) => ({ ...one, ...judge(one) }));
		const report = { cpus: os.cpus().length, model: os.cpus()[0].model, kernel: os.release(), load: os.loadavg(), rounds, workers };
		fs.writeFileSync(options.json, `${JSON.stringify({ ...report, rows, notes, skipped: peers.skipped }, null, '\t')}\n`);
	}
} finally {
	peers.stop();
	fs.rmSync(folder, { recursive: true, force: true });
}
