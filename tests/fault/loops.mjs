// Generated loops: an operation again and again, each time with the fault one step later, until it
// comes through without. A slice takes some of the steps, chosen by the seed.
import { HurtDaemon, ERRNO } from './lib.mjs';
import { hurt, operations } from './operations.mjs';

const NEVER = 1000000;
const MOST_DEATHS = 3;
/** The program of the file verbs, inside: it has no name of its own. */
const INSIDE = 'cloche';

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

/** A daemon for many loops. It is replaced after a failure, so that one finding does not hide the
 * next. */
class Bench {
	constructor(options) {
		this.options = options;
	}

	static all = new Map();

	static of(options) {
		const key = JSON.stringify(options);
		if (!Bench.all.has(key)) Bench.all.set(key, new Bench(options));
		return Bench.all.get(key);
	}

	/** At the end of a suite nothing may be left of any. */
	static async endAll(report) {
		for (const bench of Bench.all.values())
			await bench.end().catch((error) => report.fail(`the end of ${JSON.stringify(bench.options)}`, error));
		Bench.all.clear();
	}

	async get() {
		this.daemon ??= await HurtDaemon.start(this.options);
		return this.daemon;
	}

	/** A broker starts a daemon that ended ever later: a new one begins at once again. */
	async calm(daemon, [broker, pid]) {
		if (daemon.child.pid !== broker) this.deaths = 0;
		else if (daemon.daemonProcess().pid !== pid) this.deaths = (this.deaths ?? 0) + 1;
		if (this.deaths < MOST_DEATHS) return;
		await daemon.again();
		this.deaths = 0;
	}

	async drop() {
		const daemon = this.daemon;
		this.daemon = undefined;
		this.deaths = 0;
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
export async function loop(report, label, name, rule, { slice, chance, onHit, ...options } = {}) {
	const { pool, config } = operations[name];
	const bench = Bench.of({ pool, config, ...options.daemon });
	let hits = 0;
	const one = async (n) => {
		try {
			const daemon = await bench.get();
			if (!daemon.remembered) await daemon.remember();
			const before = [daemon.child.pid, daemon.daemonProcess().pid];
			const result = await hurt(daemon, name, rule(n), options);
			if (result.hits) hits++;
			if (result.hits && onHit) await onHit(daemon, result);
			await daemon.assertNoMore();
			await bench.calm(daemon, before);
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
	report.add(label, hits, slice && seen > slice ? ` of ${seen}` : '');
}

/** Who dies at its every step, and who dies with it. mayLose: the sandbox goes with it, and says so.
 * mayKill: the command does. */
const deaths = [
	{ role: 'cloched' },
	{ role: 'cloche:broker' },
	{ role: 'cloche:launch' },
	{ role: 'cloche:tasks' },
	{ role: 'cloche:dialer' },
	{ role: 'worker' },
	{ role: 'cloche-bind' },
	{ role: 'cloche-keeper', mayLose: true },
	{ role: 'cloche-init', mayLose: true },
	{ role: 'cloche-spawn', mayLose: true, mayKill: true },
	{ role: 'cloche-shim', mayKill: true },
	{ role: INSIDE, mayKill: true },
];

/** Two at once, when one of them is about to record something. */
const pairs = [
	{ role: 'cloched', also: 'cloche:broker' },
	{ role: 'cloche:broker', also: 'cloched' },
	{ role: 'cloched', also: 'cloche-keeper', mayLose: true },
	{ role: 'cloche-keeper', also: 'cloched', mayLose: true },
	{ role: 'cloche:broker', also: 'cloche-keeper', mayLose: true },
	{ role: 'cloche-keeper', also: 'cloche:broker', mayLose: true },
	{ role: 'cloche-keeper', also: 'cloche-init', mayLose: true },
	{ role: 'cloche:broker', also: 'cloche:launch' },
	{ role: 'cloche:broker', also: 'cloche:tasks' },
];

/** Who dies when somebody else has recorded something: also those who do nothing at that time. */
const strikes = [
	{ role: 'cloched', victims: 'cloche:broker' },
	{ role: 'cloched', victims: 'cloche:launch' },
	{ role: 'cloched', victims: 'cloche:tasks' },
	{ role: 'cloched', victims: 'cloche-keeper', mayLose: true },
	{ role: 'cloched', victims: 'cloche-init', mayLose: true },
	{ role: 'cloched', victims: 'cloche-spawn', mayLose: true, mayKill: true },
	{ role: 'cloched', victims: 'cloche-shim', mayKill: true },
	{ role: 'cloched', victims: INSIDE, mayKill: true },
	{ role: 'cloched', victims: 'cloche:broker cloche-keeper', mayLose: true },
	{ role: 'cloched', victims: 'cloche-keeper cloche-init', mayLose: true },
	{ role: 'cloche-keeper', victims: 'cloched' },
	{ role: 'cloche-keeper', victims: 'cloche:broker' },
	{ role: 'cloche-keeper', victims: 'cloche-init', mayLose: true },
	{ role: 'cloche-keeper', victims: 'cloched cloche:broker' },
	{ role: 'cloche:broker', victims: 'cloched' },
	{ role: 'cloche:broker', victims: 'cloche-keeper', mayLose: true },
	{ role: 'cloche:launch', victims: 'cloche:broker' },
	{ role: 'cloche:tasks', victims: 'cloche:broker' },
];

/** Every operation with every row; `of`: of these operations; `few`: as many of them, chosen; `part`: every count-th of them. */
function combine(rows, { few, chance, part, of = '' }) {
	const names = Object.keys(operations).filter((name) => name.includes(of));
	const all = names.flatMap((name) => rows.map((row) => ({ name, ...row })));
	if (part) return all.filter((_, i) => i % part.count === part.index);
	if (!few) return all;
	return Array.from({ length: few }, () => all.splice(Math.floor(chance() * all.length), 1)[0]);
}

/** kill -9 of every role, and of two at once, before each of its steps and each of the others'
 * records. */
export async function crashes(report, { slice, chance, only, few, part, of } = {}) {
	const rows = [
		...deaths.map(({ role, ...options }) => ({ what: `kill ${role}`, call: 'step', also: '', ...options })),
		...pairs.map(({ role, ...options }) => ({ what: `kill ${role}`, call: 'record', ...options })),
		...strikes.map(({ role, victims, ...options }) => ({ what: `strike ${role}`, call: 'record', also: victims, ...options })),
	];
	for (const { name, what, call, also, ...options } of combine(rows, { few, chance, part, of })) {
		const label = `${what.replace(' ', ` ${name} `)}${also && ` and ${also}`}`;
		if (only && !label.includes(only)) continue;
		await loop(report, label, name, (n) => `${what} ${call} ${n} ${also}`, { slice, chance, ...options });
	}
	await Bench.endAll(report);
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
	{ role: 'cloche:broker', call: 'brk', errno: 'ENOMEM' },
	{ role: 'cloche:launch', call: 'step', errno: 'EAGAIN' },
	{ role: 'cloche:launch', call: 'mmap', errno: 'ENOMEM' },
	{ role: 'cloche:tasks', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche:tasks', call: 'mmap', errno: 'ENOMEM' },
	{ role: 'cloche-bind', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-keeper', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-keeper', call: 'descriptor', errno: 'EMFILE', mayLose: true },
	{ role: 'cloche-keeper', call: 'mount', errno: 'EPERM' },
	{ role: 'cloche-keeper', call: 'mmap', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-keeper', call: 'brk', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-init', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'cloche-init', call: 'mmap', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-init', call: 'brk', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-spawn', call: 'step', errno: 'EAGAIN', mayLose: true },
	{ role: 'cloche-spawn', call: 'mmap', errno: 'ENOMEM', mayLose: true },
	{ role: 'cloche-shim', call: 'step', errno: 'EIO', mayKill: true },
	{ role: 'cloche-shim', call: 'mmap', errno: 'ENOMEM', mayKill: true },
	{ role: INSIDE, call: 'step', errno: 'EIO', mayKill: true },
	{ role: INSIDE, call: 'step', errno: 'ENOSPC', mayKill: true },
	{ role: INSIDE, call: 'mmap', errno: 'ENOMEM', mayKill: true },
	{ role: 'worker', call: 'step', errno: 'EIO', mayLose: true },
	{ role: 'worker', call: 'mmap', errno: 'ENOMEM', mayLose: true },
];

/** How far a sandbox that could not be made had come; the store and the broker are steps, too. */
const NAMES_STEP = /^start the sandbox \(\w+\)|\bstore\b|the broker/;

/** The n-th call fails, for every n. An error that is answered must say what failed. */
export async function refusals(report, { slice, chance, only, few, part, of } = {}) {
	for (const { name, role, call, errno, ...options } of combine(failures, { few, chance, part, of })) {
		const label = `fail ${name} ${role} ${call} ${errno}`;
		if (only && !label.includes(only)) continue;
		const onHit = (daemon, { answer, call: which }) => {
			if (!answer || answer.status < 400) return;
			const detail = answer.body?.detail;
			if (!detail) throw new Error(`${which}: ${answer.status} says nothing: ${answer.bytes}`);
			if (name === 'create' && !NAMES_STEP.test(detail)) throw new Error(`${which}: ${answer.status} does not name the step: ${detail}`);
		};
		await loop(report, label, name, (n) => `fail ${role} ${call} ${n} ${ERRNO[errno]}`, { slice, chance, onHit, ...options });
	}
	await Bench.endAll(report);
}
