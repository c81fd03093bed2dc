// Generated loops: an operation again and again, each time with the fault one step later, until it
// comes through without. A slice takes some of the steps, chosen by the seed.
import { HurtDaemon, ERRNO } from './lib.mjs';
import { hurt, operations } from './operations.mjs';

const NEVER = 1000000;

export class Report {
	constructor() {
		this.points = 0;
		this.failures = [];
		this.lines = [];
	}

	add(label, points, more = '') {
		this.points += points;
		this.lines.push(`${label}: ${points}${more}`);
		if (!this.isQuiet) console.log(`${label}: ${points} points${more}`);
	}

	fail(label, error) {
		this.failures.push({ label, error });
		if (!this.isQuiet) console.log(`FAILED ${label}: ${error.message.split('\n')[0]}`);
	}
}

/** A daemon that is replaced after a failure, so that one finding does not hide the next. */
class Bench {
	constructor(options) {
		this.options = options;
	}

	async get() {
		this.daemon ??= await HurtDaemon.start(this.options);
		return this.daemon;
	}

	async drop() {
		const daemon = this.daemon;
		this.daemon = undefined;
		await daemon?.discard();
	}

	async end() {
		const daemon = this.daemon;
		this.daemon = undefined;
		if (!daemon) return;
		try {
			await daemon.end();
		} finally {
			await daemon.discard();
		}
	}
}

function pick(count, slice, chance) {
	const all = Array.from({ length: count }, (_, i) => i + 1);
	if (!slice || count <= slice) return all;
	return Array.from({ length: slice }, () => all.splice(Math.floor(chance() * all.length), 1)[0]);
}

/** One loop: `rule(n)` is what is done to the n-th step. Without a slice it goes on past the count
 * of a quiet run until two runs in a row were not hit. */
export async function loop(report, label, name, rule, { slice, chance, after, onHit, ...options } = {}) {
	const bench = new Bench({ pool: operations[name].pool, ...options.daemon });
	let hits = 0;
	const one = async (n) => {
		try {
			const daemon = await bench.get();
			const result = await hurt(daemon, name, rule(n), options);
			if (result.hits) hits++;
			if (result.hits && onHit) await onHit(daemon, result);
			if (result.hits && after) await after(daemon);
			return result;
		} catch (error) {
			report.fail(`${label}, step ${n}`, error);
			await bench.drop();
			return { hits: 1, seen: 0 };
		}
	};
	const { seen } = await one(NEVER);
	for (const n of pick(seen, slice, chance)) await one(n);
	for (let n = seen + 1, quiet = 0; !slice && seen > 0 && quiet < 2 && n < seen + 100; n++) quiet = (await one(n)).hits ? 0 : quiet + 1;
	try {
		await bench.end();
	} catch (error) {
		report.fail(`${label}, the end`, error);
	}
	report.add(label, hits);
}

const broker = (daemon) => daemon.child.pid;
const cloched = (daemon) => daemon.daemonProcess().pid;
const keeper = (daemon, { id }) => (id ? daemon.pidsOf(id).keeper : '');
const init = (daemon, { id }) => (id ? daemon.pidsOf(id).init : '');

/** Who dies at its every step, and who dies with it. */
const deaths = [
	{ role: 'cloched' },
	{ role: 'cloche:broker' },
	{ role: 'cloche:launch' },
	{ role: 'cloche:tasks' },
	{ role: 'cloche-keeper', mayLose: true },
	{ role: 'cloche-init', mayLose: true },
	{ role: 'cloche-spawn', mayLose: true },
	{ role: 'cloched', also: broker, and: 'the broker' },
	{ role: 'cloche:broker', also: cloched, and: 'cloched' },
	{ role: 'cloched', also: keeper, and: 'the keeper', mayLose: true },
	{ role: 'cloche:broker', also: keeper, and: 'the keeper', mayLose: true },
	{ role: 'cloche-keeper', also: cloched, and: 'cloched', mayLose: true },
	{ role: 'cloche-keeper', also: init, and: 'init', mayLose: true },
	{ role: 'cloche-keeper', also: broker, and: 'the broker', mayLose: true },
];

/** Every operation with every row; `few`: as many of them, chosen. */
function combine(rows, { few, chance }) {
	const all = Object.keys(operations).flatMap((name) => rows.map((row) => ({ name, ...row })));
	if (!few) return all;
	return Array.from({ length: few }, () => all.splice(Math.floor(chance() * all.length), 1)[0]);
}

/** kill -9 of every role, and of two at once, before each of its steps. */
export async function crashes(report, { slice, chance, only, few } = {}) {
	for (const { name, role, and, ...options } of combine(deaths, { few, chance })) {
		const label = `kill ${name} ${role}${and ? ` and ${and}` : ''}`;
		if (only && !label.includes(only)) continue;
		await loop(report, label, name, (n) => `kill ${role} step ${n}`, { slice, chance, after: (daemon) => daemon.again(), ...options });
	}
}

/** Which call of which role fails how. "step": each system call that is no memory. */
const failures = [
	{ role: 'cloched', call: 'step', errno: 'EIO' },
	{ role: 'cloched', call: 'openat', errno: 'EMFILE' },
	{ role: 'cloched', call: 'pwrite64', errno: 'ENOSPC' },
	{ role: 'cloched', call: 'write', errno: 'ENOSPC' },
	{ role: 'cloched', call: 'fdatasync', errno: 'ENOSPC' },
	{ role: 'cloched', call: 'socket', errno: 'EMFILE' },
	{ role: 'cloched', call: 'accept4', errno: 'EMFILE' },
	{ role: 'cloched', call: 'sendmsg', errno: 'EAGAIN' },
	{ role: 'cloched', call: 'mmap', errno: 'ENOMEM' },
	{ role: 'cloched', call: 'brk', errno: 'ENOMEM' },
	{ role: 'cloched', call: 'malloc', errno: 'ENOMEM', daemon: { malloc: true } },
	{ role: 'cloche:broker', call: 'step', errno: 'EIO' },
	{ role: 'cloche:broker', call: 'openat2', errno: 'EMFILE' },
	{ role: 'cloche:broker', call: 'mkdirat', errno: 'ENOSPC' },
	{ role: 'cloche:broker', call: 'mmap', errno: 'ENOMEM' },
	{ role: 'cloche:launch', call: 'step', errno: 'EAGAIN' },
	{ role: 'cloche:tasks', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-keeper', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-keeper', call: 'step', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-keeper', call: 'mmap', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-keeper', call: 'brk', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-init', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-init', call: 'mmap', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-spawn', call: 'step', errno: 'EAGAIN', mayLose: true },
	{ role: 'worker', call: 'step', errno: 'EIO', mayLose: true },
];

/** The n-th call fails, for every n. An error that is answered must say what failed. */
export async function refusals(report, { slice, chance, only, few } = {}) {
	for (const { name, role, call, errno, ...options } of combine(failures, { few, chance })) {
		const label = `fail ${name} ${role} ${call} ${errno}`;
		if (only && !label.includes(only)) continue;
		const onHit = (daemon, { answer, call: which }) => {
			if (answer && answer.status >= 400 && !answer.body?.detail) throw new Error(`${which}: ${answer.status} says nothing: ${answer.bytes}`);
		};
		await loop(report, label, name, (n) => `fail ${role} ${call} ${n} ${ERRNO[errno]}`, { slice, chance, onHit, ...options });
	}
}
