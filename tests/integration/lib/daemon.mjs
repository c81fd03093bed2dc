// A daemon on a temporary state directory: start it, talk to it, end it, prove nothing is left.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

import * as host from './host.mjs';
import { call, events, stream, until } from './http.mjs';
import { clocheBin } from './paths.mjs';
import { WebSocketClient } from './websocket.mjs';

/** Runs a program to its end: {code, signal, stdout, stderr} (buffers as text unless `binary`). */
export async function run(file, args, { input, env, cwd, uid, gid, binary = false, ms = 60000 } = {}) {
	const child = spawn(file, args, { env: env ?? process.env, cwd, uid, gid, stdio: ['pipe', 'pipe', 'pipe'] });
	const stdout = [];
	const stderr = [];
	child.stdout.on('data', (part) => stdout.push(part));
	child.stderr.on('data', (part) => stderr.push(part));
	child.stdin.on('error', () => {});
	if (input && typeof input.pipe === 'function') input.pipe(child.stdin);
	else child.stdin.end(input ?? '');
	const timer = setTimeout(() => child.kill('SIGKILL'), ms);
	const [code, signal] = await once(child, 'close');
	clearTimeout(timer);
	const text = (parts) => (binary ? Buffer.concat(parts) : Buffer.concat(parts).toString());
	return { code, signal, stdout: text(stdout), stderr: Buffer.concat(stderr).toString() };
}

// Without a stock of parked sandboxes: most tests count what is there. pool.test.mjs has one.
const NO_POOL = '[sandboxes.default]\npool = 0\n';

export class Daemon {
	constructor({ config = NO_POOL, user, env, wrap, enter, listen = 'none', logsToFile = false } = {}) {
		this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-test-'));
		this.user = user?.(this.folder);
		fs.chmodSync(this.folder, 0o755);
		this.state = path.join(this.user?.home ?? this.folder, 'state');
		this.socket = path.join(this.state, 'cloche.sock');
		this.env = { ...(this.user?.env ?? process.env), ...env, CLOCHE_STATE: this.state };
		this.wrap = wrap; // (file, args) => [file, args]: how to start the server
		this.enter = enter; // pid whose network namespace the server lives in
		this.listen = listen; // --listen; null: what config.toml says
		this.logFile = logsToFile && path.join(this.folder, 'log'); // for who measures: we read no line of it meanwhile
		this.ids = new Set();
		this.seen = new Map();
		this.log = '';
		if (config !== null) this.configure(config);
	}

	static async start(options) {
		const daemon = new Daemon(options);
		await daemon.serve().catch(async (error) => {
			await daemon.discard();
			throw error;
		});
		return daemon;
	}

	configure(text) {
		fs.mkdirSync(this.state, { recursive: true, mode: 0o710 });
		// Most tests count what is there: blank ones only for those that ask for them.
		const rest = /^\s*blanks\b/m.test(text) ? '' : '\n[sandboxes]\nblanks = 0\n';
		fs.writeFileSync(path.join(this.state, 'config.toml'), text + rest);
		if (this.user) {
			fs.chownSync(this.state, this.user.uid, this.user.gid);
			fs.chownSync(path.join(this.state, 'config.toml'), this.user.uid, this.user.gid);
		}
	}

	logStreams() {
		if (!this.logFile) return ['pipe', 'pipe'];
		const file = fs.openSync(this.logFile, 'a');
		return [file, file];
	}

	/** Starts `cloche serve` and waits until the API answers. */
	async serve() {
		let command = [clocheBin(), ['serve', ...(this.listen ? ['--listen', this.listen] : [])]];
		if (this.wrap) command = this.wrap(...command);
		const [uid, gid] = [this.user?.uid, this.user?.gid];
		// Entering takes root; the user comes after it.
		const become = uid === undefined ? [] : ['setpriv', '--reuid', String(uid), '--regid', String(gid), '--clear-groups', '--'];
		if (this.enter) command = ['nsenter', ['-t', String(this.enter), '-n', '--', ...become, command[0], ...command[1]]];
		this.child = spawn(...command, {
			env: this.env,
			...(this.enter ? {} : { uid, gid }),
			stdio: ['ignore', ...this.logStreams()],
		});
		const child = this.child;
		const take = (part) => (this.log += part);
		child.stdout?.on('data', take);
		child.stderr?.on('data', take);
		this.ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
		let end;
		this.ended.then((status) => (end = status));
		await until(
			async () => {
				if (end) return true;
				return fs.existsSync(this.socket) && (await this.api('GET', '/health')).status === 200;
			},
			'the daemon answers',
			20000,
		).catch((error) => {
			child.kill('SIGTERM');
			throw new Error(`${error.message}\n${this.log}`);
		});
		if (end) throw new Error(`cloche serve ended with ${end.code ?? end.signal}:\n${this.log}`);
		this.note();
	}

	cli(args, options = {}) {
		return run(clocheBin(), args, { env: this.env, uid: this.user?.uid, gid: this.user?.gid, ...options });
	}

	/** As cli, but the command must succeed; returns its stdout. */
	async ok(args, options) {
		const result = await this.cli(args, options);
		assert.equal(result.code, 0, `cloche ${args.join(' ')}: status ${result.code ?? result.signal}: ${result.stderr}`);
		return result.stdout;
	}

	async json(args, options) {
		return JSON.parse(await this.ok(['-o', 'json', ...args], options));
	}

	async api(method, route, body, options) {
		const answer = await call(this.socket, method, `/api/v1${route}`, body, options);
		if (typeof answer.body?.id === 'string' && answer.body.id.startsWith('sb_')) this.ids.add(answer.body.id);
		return answer;
	}

	/** As api, but the status must be 2xx; returns the body. */
	async get(method, route, body, options) {
		const answer = await this.api(method, route, body, options);
		assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.bytes}`);
		return answer.body;
	}

	/** Where it listens on TCP: {host, port}. */
	async tcp() {
		const { listen } = await this.get('GET', '/version');
		const [, host, port] = /^\[?([^\]]*)\]?:(\d+)$/.exec(listen);
		return { host, port: Number(port) };
	}

	/** Makes a key by the command's own socket, as the operator; returns the answer with its secret. */
	key(body) {
		return this.get('POST', '/keys', body);
	}

	/** A caller with a key on TCP. */
	async as(secret, more = {}) {
		return new Caller({ ...(await this.tcp()), ...more }, secret);
	}

	stream(method, route, options) {
		return stream(this.socket, method, `/api/v1${route}`, options);
	}

	/** Server-sent events: {next(): {id, event, data}, close()}. */
	async events(route, { lastEventId, headers } = {}) {
		const response = await this.stream('GET', route, {
			headers: {
				accept: 'text/event-stream',
				...(lastEventId !== undefined ? { 'last-event-id': String(lastEventId) } : {}),
				...headers,
			},
		});
		assert.equal(response.statusCode, 200);
		assert.match(response.headers['content-type'], /^text\/event-stream/);
		const iterator = events(response);
		return {
			response,
			next: async (ms = 10000) => {
				let timer;
				const late = new Promise((_, reject) => {
					timer = setTimeout(() => reject(new Error(`no event in ${ms} ms`)), ms);
				});
				try {
					const { value, done } = await Promise.race([iterator.next(), late]);
					return done ? null : value;
				} finally {
					clearTimeout(timer);
				}
			},
			close: () => response.destroy(),
		};
	}

	attach(sandbox, exec, query = '') {
		return WebSocketClient.open(this.socket, `/api/v1/sandboxes/${sandbox}/execs/${exec}/attach${query}`);
	}

	async create(body = {}) {
		const sandbox = await this.get('POST', '/sandboxes', body);
		this.note();
		return sandbox;
	}

	/** Runs a command (array: argv, string: shell line) and waits for it. */
	exec(sandbox, command, more = {}) {
		const what = Array.isArray(command) ? { argv: command } : { shell: command };
		return this.get('POST', `/sandboxes/${sandbox}/execs`, { ...what, ...more });
	}

	/** Remembers every process and sandbox of ours that is there now. */
	note() {
		for (const info of host.descendants(this.child.pid)) this.seen.set(`${info.pid}/${info.start}`, info);
		const folder = path.join(this.state, 'sandboxes');
		if (fs.existsSync(folder)) for (const name of fs.readdirSync(folder)) this.ids.add(name);
		for (const group of host.cgroupsNamed([...this.ids])) {
			let text = '';
			try {
				text = fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8');
			} catch {}
			for (const pid of text.split('\n').filter(Boolean)) {
				const info = host.processInfo(pid);
				if (info) this.seen.set(`${info.pid}/${info.start}`, info);
			}
		}
	}

	/** The processes of a role below the broker: "cloched", or a word of the command line. */
	processes(word) {
		return host.descendants(this.child.pid).filter((info) => {
			const line = host.commandLine(info.pid);
			return info.comm === word || line.some((part) => part === word || part.endsWith(`/${word}`));
		});
	}

	daemonProcess() {
		const [info] = this.processes('cloched').filter((one) => !host.commandLine(one.pid).includes('worker'));
		assert.ok(info, 'cloched runs below the broker');
		return info;
	}

	/** `cloche stop`, then nothing of ours may be left on the machine. */
	async stop() {
		if (this.child) this.note();
		const result = await this.cli(['stop']);
		assert.equal(result.code, 0, `cloche stop: ${result.stderr}`);
		await this.assertNothingLeft();
		this.remove();
	}

	async assertNothingLeft() {
		const left = () => [...this.seen.values()].filter(host.isAlive);
		await until(() => left().length === 0, 'all processes are gone').catch(() => {
			assert.fail(`processes left: ${left().map((info) => `${info.pid} ${host.commandLine(info.pid).join(' ') || info.comm}`)}`);
		});
		await until(() => host.cgroupsNamed([...this.ids]).length === 0, 'control groups are gone').catch(() => {
			assert.deepEqual(host.cgroupsNamed([...this.ids]), [], 'control groups left');
		});
		assert.deepEqual(host.mountsWith(this.folder), [], 'mounts left on the host');
		const runFolder = path.join(this.state, 'run');
		if (fs.existsSync(runFolder))
			assert.deepEqual(fs.readdirSync(runFolder).filter((name) => name.endsWith('.sock')), [], 'sockets left');
		assert.ok(!fs.existsSync(this.socket), 'API socket left');
	}

	remove() {
		// Never delete through a mount that should not be there: it may show the machine's own files.
		assert.deepEqual(host.mountsWith(this.folder), [], 'mounts left on the host');
		fs.rmSync(this.folder, { recursive: true, force: true });
	}

	/** For after(): ends whatever is there without failing the test a second time. */
	async discard() {
		if (!fs.existsSync(this.folder)) return;
		if (this.child) this.note();
		await this.cli(['stop']).catch(() => {});
		for (const info of this.seen.values())
			if (host.isAlive(info)) {
				try {
					process.kill(info.pid, 'SIGKILL');
				} catch {}
			}
		this.remove();
	}
}

/** Somebody with a key (or none) who calls a daemon on TCP. */
export class Caller {
	constructor(where, secret) {
		this.where = where;
		this.headers = secret ? { authorization: `Bearer ${secret}` } : {};
	}

	api(method, route, body, { headers, ...options } = {}) {
		const path = route.startsWith('//') ? route.slice(1) : `/api/v1${route}`;
		return call(this.where, method, path, body, { ...options, headers: { ...this.headers, ...headers } });
	}

	/** As api, but the status must be this. */
	async expect(status, method, route, body, options) {
		const answer = await this.api(method, route, body, options);
		assert.equal(answer.status, status, `${method} ${route}: ${answer.status} ${answer.bytes}`);
		return answer.body;
	}

	stream(method, route, { headers, ...options } = {}) {
		return stream(this.where, method, `/api/v1${route}`, { ...options, headers: { ...this.headers, ...headers } });
	}

	attach(route) {
		return WebSocketClient.open(this.where, `/api/v1${route}`, { headers: this.headers });
	}
}

/** One daemon for all tests of a file: call in a describe() body. */
export function withDaemon({ before, after }, options) {
	const holder = {};
	before(async () => {
		holder.daemon = await Daemon.start(options);
	});
	after(async () => {
		await holder.daemon?.stop();
	});
	return new Proxy(holder, {
		get: (target, key) => {
			const value = target.daemon[key];
			return typeof value === 'function' ? value.bind(target.daemon) : value;
		},
	});
}
