// A whole internet of our own: a network namespace in which every address exists and answers, and
// another one, whose only way leads there, for the daemon. Nothing leads to a real network, so what
// leaks is seen here and touches nobody.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { until } from './http.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));

export const RESOLVER = '93.184.216.53';

/** A process that holds a network namespace. */
function namespace() {
	const child = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' });
	const own = fs.readlinkSync('/proc/self/ns/net');
	return until(() => {
		try {
			return fs.readlinkSync(`/proc/${child.pid}/ns/net`) !== own && child;
		} catch {
			return false;
		}
	}, 'a network namespace');
}

const inside = (child, command) => execFileSync('nsenter', ['-t', String(child.pid), '-n', 'sh', '-ec', command]);

/** A CA and a certificate for the names the tests use. */
function certificates(folder) {
	const run = (...args) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
	run('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', 'ca.key');
	run('req', '-x509', '-new', '-key', 'ca.key', '-days', '30', '-subj', '/CN=Test CA', '-out', 'ca.pem');
	run('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', 'server.key');
	run('req', '-new', '-key', 'server.key', '-subj', '/CN=server', '-out', 'server.csr');
	fs.writeFileSync(path.join(folder, 'ext'), 'subjectAltName=DNS:example.test,DNS:other.test,DNS:learn.test,DNS:*.example.test,DNS:zone.test,DNS:*.zone.test\n');
	run('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '30', '-extfile', 'ext', '-out', 'server.pem');
}

export class Internet {
	static async start() {
		const net = new Internet();
		net.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-net-'));
		fs.chmodSync(net.folder, 0o755);
		certificates(net.folder);
		net.ca = fs.readFileSync(path.join(net.folder, 'ca.pem'), 'utf8');
		net.world = await namespace();
		net.site = await namespace();
		inside(
			net.world,
			`ip link set lo up
			ip link add up0 type veth peer name down0 netns ${net.site.pid}
			ip addr add 93.184.1.1/24 dev up0
			ip -6 addr add 2a00:93:1::1/64 dev up0 nodad
			ip link set up0 up
			ip route add local default dev lo table main
			ip -6 route add local default dev lo table main metric 4096
			for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done
			echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind`,
		);
		inside(
			net.site,
			`ip link set lo up
			ip addr add 93.184.1.2/24 dev down0
			ip -6 addr add 2a00:93:1::2/64 dev down0 nodad
			ip link set down0 up
			ip route add default via 93.184.1.1
			ip -6 route add default via 2a00:93:1::1`,
		);
		await net.#serve();
		return net;
	}

	/** For Daemon: the server lives in the namespace whose only way leads to this internet. */
	get enter() {
		return this.site.pid;
	}

	async #serve() {
		this.log = [];
		this.packets = [];
		this.origins = spawn('nsenter', ['-t', String(this.world.pid), '-n', process.execPath, path.join(here, 'origins.mjs'), this.folder], {
			stdio: ['pipe', 'pipe', 'inherit'],
		});
		this.sniffer = spawn('nsenter', ['-t', String(this.world.pid), '-n', 'python3', path.join(here, 'sniffer.py'), 'up0'], {
			stdio: ['ignore', 'pipe', 'inherit'],
		});
		this.#read(this.origins, this.log);
		this.#read(this.sniffer, this.packets);
		await until(() => this.log.some((row) => row.ready) && this.packets.some((row) => row.ready), 'the servers listen');
	}

	#read(child, rows) {
		let rest = '';
		child.stdout.on('data', (part) => {
			const lines = (rest + part).split('\n');
			rest = lines.pop();
			for (const line of lines) rows.push(JSON.parse(line));
		});
	}

	/** Names: {'example.test': {a: [...], aaaa: [...], ttl, cname}}; added to those there are. */
	async names(zone) {
		const mark = `m${Math.random()}`;
		this.origins.stdin.write(`${JSON.stringify({ zone, mark })}\n`);
		await until(() => this.log.some((row) => row.mark === mark), 'the name server knows');
	}

	/** Forgets what was seen so far. */
	clear() {
		this.log.length = 0;
		this.packets.length = 0;
	}

	/** What left the daemon's namespace since: "tcp 93.184.216.34 443", each once; questions to our resolver not. */
	left() {
		const rows = this.packets.filter((row) => row.proto && !(row.to === RESOLVER && row.port === 53));
		return [...new Set(rows.map((row) => `${row.proto} ${row.to} ${row.port}`))].sort();
	}

	/** Names our resolver was asked for. */
	asked() {
		return [...new Set(this.log.filter((row) => row.query).map((row) => row.query))].sort();
	}

	async stop() {
		for (const child of [this.origins, this.sniffer, this.site, this.world]) {
			if (!child || child.exitCode !== null || child.signalCode !== null) continue;
			const gone = once(child, 'exit');
			child.kill('SIGKILL');
			await gone;
		}
		fs.rmSync(this.folder, { recursive: true, force: true });
	}
}
