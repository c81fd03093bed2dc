// A daemon that can be hurt at a chosen step, and what must be true of the machine afterwards.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { once } from 'node:events';

import { build, cgroupMounts, clocheBin, Daemon, allProcesses, mountsWith, openFiles, sleep, until } from '../integration/lib.mjs';

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

export class HurtDaemon extends Daemon {
	constructor({ pool = 0, malloc = false, config = '', ...options } = {}) {
		super({ config: `[sandboxes.default]\npool = ${pool}\n${config}`, ...options });
		this.pool = pool;
		this.everIds = new Set();
		this.starts = 0;
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
		await super.serve();
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

	isServing() {
		return this.child.exitCode === null && this.child.signalCode === null;
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
		return rows;
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

	/** What is on the machine and the store does not know; [] is right. */
	strays(rows) {
		const known = new Set(rows.map((row) => row.id));
		const alive = new Set(rows.filter((row) => ['running', 'stopping', 'creating'].includes(row.state)).map((row) => row.id));
		const list = (name) => fs.readdirSync(path.join(this.state, name));
		const folders = list('sandboxes').filter((id) => !known.has(id));
		const found = folders.length > this.pool ? folders.map((id) => `folder ${id}`) : [];
		const parked = new Set(this.pool ? folders : []);
		for (const id of folders) this.everIds.add(id);
		for (const row of rows) this.everIds.add(row.id);
		const isFine = (id) => alive.has(id) || parked.has(id);
		for (const name of list('run'))
			if (name.startsWith('sb_') && !isFine(name.replace(/\.sock$/, ''))) found.push(`socket ${name}`);
		for (const group of clocheGroups())
			for (const id of this.everIds)
				if (!isFine(id) && fs.existsSync(path.join(group, id))) found.push(`cgroup ${path.join(group, id)}`);
		const kept = new Set();
		for (const info of this.keepers()) {
			kept.add(info.id);
			if (!isFine(info.id)) found.push(`keeper ${info.pid} of ${info.id}`);
		}
		for (const id of alive) if (!kept.has(id)) found.push(`no keeper of ${id}`);
		for (const line of mountsWith(this.folder)) if (!this.ownMount) found.push(`mount ${line}`);
		for (const file of loopFiles())
			if (file.startsWith(this.folder) && ![...alive, ...parked].some((id) => file.includes(id))) found.push(`loop ${file}`);
		for (const row of rows)
			if (alive.has(row.id) && !list('sandboxes').includes(row.id)) found.push(`no folder of ${row.id}, which is ${row.state}`);
		return found;
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
				found = this.strays(rows);
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

	/** Open descriptors of those who stay: a fault must leak none. */
	descriptors() {
		const count = (pid) => {
			try {
				return openFiles(pid);
			} catch {
				return 0;
			}
		};
		const roles = ['cloched', 'cloche:broker', 'cloche:launch', 'cloche:tasks'];
		return Object.fromEntries(roles.map((role) => [role, Math.max(0, ...this.processes(role).map((info) => count(info.pid)))]));
	}

	async end() {
		this.watcher?.close();
		await this.stop();
	}

	async discard() {
		this.watcher?.close();
		await super.discard();
	}
}

function readText(file) {
	try {
		return fs.readFileSync(file, 'utf8');
	} catch {
		return '';
	}
}

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

function loopFiles() {
	return fs
		.readdirSync('/sys/block')
		.filter((name) => name.startsWith('loop'))
		.map((name) => readText(`/sys/block/${name}/loop/backing_file`).trim())
		.filter(Boolean);
}

export const temporary = (name) => fs.mkdtempSync(path.join(os.tmpdir(), `cloche-${name}-`));
