// A daemon that can be hurt at a chosen step, and what must be true of the machine afterwards.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { once } from 'node:events';

import { build, clocheBin, Daemon, allProcesses, processInfo, sleep, until } from '../integration/lib.mjs';
import { files, openLinks, readText, strays } from './machine.mjs';

/** Connections of clients and of the parked come and go. */
const DESCRIPTORS_SLACK = 3;

export const ERRNO = { EIO: 5, ENOMEM: 12, EMFILE: 24, ENOSPC: 28, EAGAIN: 11, EPERM: 1 };

/** Numbers in [0, 1) that a seed repeats (mulberry32). */
export function random(seed) {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let t = Math.imul(state ^ (state >>> 15), state | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
	};
}

/** A folder with `cloche` and the `cloched` whose allocations the injector can refuse. */
export function mallocPrograms(folder) {
	fs.mkdirSync(folder, { recursive: true });
	fs.copyFileSync(clocheBin(), path.join(folder, 'cloche'));
	fs.copyFileSync(path.join(build, 'tests/fault/cloched'), path.join(folder, 'cloched'));
	return path.join(folder, 'cloche');
}

const running = new Set();

/** Whoever interrupts a run leaves nothing behind, either. */
export function endOnSignal() {
	const end = async () => {
		for (const daemon of running) await daemon.discard().catch(() => {});
		process.exit(130);
	};
	for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, end);
}

export class HurtDaemon extends Daemon {
	constructor({ pool = 0, malloc = false, config = '', ...options } = {}) {
		super({ config: `[sandboxes.default]\npool = ${pool}\n${config}`, ...options });
		this.pool = pool;
		running.add(this);
		this.everIds = new Set();
		this.outputs = new Set(); // of every broker there was: by these its children are known
		this.starts = 0;
		this.keeping = new Set(); // tasks whose runs may leave their sandboxes for the next
		const program = malloc ? mallocPrograms(path.join(this.folder, 'bin')) : undefined;
		this.wrap = (file, args) => [path.join(build, 'tests/fault/inject'), [this.control(), program ?? file, ...args]];
	}

	static async start(options) {
		const daemon = new HurtDaemon(options);
		await daemon.serve();
		return daemon;
	}

	control() {
		return path.join(this.folder, `inject-${this.starts}`);
	}

	async serve() {
		this.starts++;
		const serving = super.serve();
		this.outputs.add(fs.readlinkSync(`/proc/${this.child.pid}/fd/1`));
		await serving;
		if (!this.watcher) {
			const folder = path.join(this.state, 'sandboxes');
			this.watcher = fs.watch(folder, (kind, name) => name?.startsWith('sb_') && this.everIds.add(name));
			this.watcher.unref();
		}
	}

	/** One line to the injector, one back. */
	async inject(line) {
		const socket = net.connect(this.control());
		try {
			await once(socket, 'connect');
			socket.write(`${line}\n`);
			const [answer] = await once(socket, 'data');
			return String(answer).trim();
		} finally {
			socket.on('error', () => {});
			socket.destroy();
		}
	}

	/** Ends the last rule: {seen, hits, call}. An injector with nobody left to watch is gone. */
	async calm() {
		const answer = await this.inject('off').catch(() => 'seen 0 hit 1 gone');
		const [, seen, hits, call] = /^seen (\d+) hit (\d+) (\S+)/.exec(answer);
		return { seen: Number(seen), hits: Number(hits), call };
	}

	/** An answer, or null when the connection broke: then nothing was promised. */
	async ask(method, route, body, { ms = 60000, ...options } = {}) {
		const cut = AbortSignal.timeout(ms);
		try {
			return await this.api(method, route, body, { ...options, signal: cut });
		} catch (error) {
			if (cut.aborted) throw new Error(`${method} ${route}: no answer in ${ms} ms`);
			return null;
		}
	}

	/** A broker that was just killed may be followed by its daemon a moment later. */
	isServing() {
		return this.child.exitCode === null && this.child.signalCode === null && processInfo(this.child.pid) !== null;
	}

	/** Answers again; a broker that is gone is started again. */
	async recover() {
		const up = async () => (await this.ask('GET', '/health', undefined, { ms: 2000 }).catch(() => null))?.status === 200;
		if (this.isServing() && (await up())) return;
		for (let i = 0; i < 100 && this.isServing(); i++) {
			await sleep(20);
			if (await up()) return;
		}
		const end = Date.now() + 20000;
		while (this.isServing() && Date.now() < end) {
			if (await up()) return;
			await sleep(50);
		}
		assert.ok(!this.isServing(), `the daemon answers again\n${this.log.slice(-2000)}`);
		await this.ended;
		await this.serve();
	}

	/** A new broker and daemon: counters and delays of restarts begin anew. */
	async again() {
		this.child.kill('SIGTERM');
		await this.ended;
		await this.serve();
	}

	async rows() {
		const rows = [];
		for (let cursor = ''; cursor !== null; ) {
			const page = await this.get('GET', `/sandboxes?limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
			rows.push(...page.items);
			cursor = page.nextCursor ?? null;
		}
		for (const task of this.keeping) for (const row of await this.kept(task)) if (!rows.some(({ id }) => id === row.id)) rows.push(row);
		return rows;
	}

	/** Sandboxes that are kept of the runs of a task: no list has them. */
	async kept(task) {
		const { items } = await this.get('GET', `/tasks/${task}/runs`);
		const pages = await Promise.all(items.map((run) => this.get('GET', `/sandboxes?label=${encodeURIComponent(`cloche/run=${run.id}`)}`)));
		return pages.flatMap((page) => page.items);
	}

	/** Everything half-made is finished or undone: the rows. */
	async settle(ms = 40000) {
		let rows;
		await until(
			async () => {
				rows = await this.rows();
				return rows.every((row) => !['creating', 'stopping', 'removing'].includes(row.state));
			},
			'no sandbox is between two states',
			ms,
		).catch((error) => {
			throw new Error(`${error.message}: ${JSON.stringify(rows?.map((row) => [row.id, row.state]))}\n${this.log.slice(-3000)}`);
		});
		return rows;
	}

	/** Sandboxes in which a command runs, as far as the store knows. */
	async busy(rows) {
		const busy = new Set();
		for (const row of rows) {
			if (row.state !== 'running') continue;
			const { items } = await this.get('GET', `/sandboxes/${row.id}/execs?limit=200`);
			if (items.some((one) => one.state === 'running')) busy.add(row.id);
		}
		return busy;
	}

	/** Keepers of sandboxes that ever were here: {pid, id}; init and what it runs end with them. */
	keepers() {
		const folder = path.join(this.state, 'sandboxes');
		const byPid = new Map();
		for (const id of fs.readdirSync(folder)) {
			this.everIds.add(id);
			const pid = /pid=(\d+)/.exec(readText(path.join(folder, id, 'keeper')))?.[1];
			if (pid) byPid.set(Number(pid), id);
		}
		const own = (pid) => byPid.get(pid) ?? /\/cloche\/(sb_\w+)/.exec(readText(`/proc/${pid}/cgroup`))?.[1];
		return allProcesses()
			.filter((info) => info.comm === 'cloche-keeper')
			.map((info) => ({ ...info, id: own(info.pid) }))
			.filter((info) => this.everIds.has(info.id));
	}

	pidsOf(id) {
		const keeper = Number(/pid=(\d+)/.exec(readText(path.join(this.state, 'sandboxes', id, 'keeper')))?.[1]);
		const init = allProcesses().find((info) => info.ppid === keeper)?.pid;
		return { keeper, init };
	}

	/** Nothing stray within a few seconds; the rows. */
	async assertKnown() {
		let found, rows;
		await until(
			async () => {
				rows = await this.settle();
				found = strays(this, rows, await this.busy(rows));
				return found.length === 0;
			},
			'nothing on the machine that the store does not know',
			15000,
		).catch((error) => {
			throw new Error(`${error.message}: ${found}\nrows ${JSON.stringify(rows?.map((row) => [row.id, row.state, row.endReason]))}\n${this.log.slice(-3000)}`);
		});
		return rows;
	}

	/** The stock is full and connected. */
	async filled() {
		await until(() => this.keepers().length >= this.pool, 'the stock is made', 30000);
		await until(async () => (await this.poolReady()) >= this.pool, 'the stock is ready', 30000);
	}

	/** Parked sandboxes the daemon is connected to: each is a descriptor of a Unix socket more. */
	async poolReady() {
		const parked = fs.readdirSync(path.join(this.state, 'run')).filter((name) => name.startsWith('sb_'));
		await sleep(100);
		return parked.length;
	}

	async clear() {
		for (const row of await this.rows()) {
			const gone = await this.ask('DELETE', `/sandboxes/${row.id}?force=1`);
			assert.ok([204, 200, 404].includes(gone?.status), `rm ${row.id}, ${row.state}: ${gone?.status} ${gone?.bytes}\n${this.log.slice(-2000)}`);
		}
		assert.deepEqual(await this.assertKnown(), []);
	}

	/** With nothing there but the stock: what the machine then has is what it must have again. One
	 * sandbox comes and goes first, since what is made for the first of its kind stays. */
	async remember() {
		const { id } = await this.create();
		await this.exec(id, 'true');
		await this.clear();
		if (this.pool) await this.filled();
		this.remembered = { files: files(this, new Set(this.parked())), descriptors: this.descriptors() };
	}

	parked() {
		return this.pool ? fs.readdirSync(path.join(this.state, 'sandboxes')) : [];
	}

	/** No file and no descriptor more than remembered, within a few seconds. */
	async assertNoMore() {
		const more = () => {
			const now = { files: files(this, new Set(this.parked())), descriptors: this.descriptors() };
			const { descriptors } = this.remembered;
			return [
				...now.files.filter((name) => !this.remembered.files.includes(name)).map((name) => `file ${name}`),
				...Object.entries(now.descriptors)
					.filter(([role, count]) => count > descriptors[role] + DESCRIPTORS_SLACK)
					.map(([role, count]) => `${role}: ${count} descriptors, not ${descriptors[role]}`),
			];
		};
		await until(() => more().length === 0, 'no file or descriptor is left', 10000).catch((error) => {
			throw new Error(`${error.message}: ${more()}`);
		});
	}

	/** Open descriptors of those who stay: a fault must leak none. A folder that was granted for a
	 * sandbox that was not made waits for ten minutes. */
	descriptors() {
		const granted = path.join(this.folder, 'given');
		const roles = ['cloched', 'cloche:broker', 'cloche:launch', 'cloche:tasks', 'cloche:dialer'];
		const count = (pid) => openLinks(pid).filter((target) => target !== granted).length;
		return Object.fromEntries(roles.map((role) => [role, Math.max(0, ...this.processes(role).map((info) => count(info.pid)))]));
	}

	async end() {
		this.watcher?.close();
		await this.stop();
		running.delete(this);
	}

	async discard() {
		this.watcher?.close();
		await super.discard();
		running.delete(this);
	}
}

export const temporary = (name) => fs.mkdtempSync(path.join(os.tmpdir(), `cloche-${name}-`));
