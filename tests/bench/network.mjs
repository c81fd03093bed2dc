// Row 8: what the gateway costs. A server in a namespace of its own, where the daemon lives, too; the same client outside
// and inside sandboxes: one that may reach a range (the machine's own addresses are reached by no name), one with the level full. Beside it, where
// they are installed: pasta, and a redirect of nftables to a relay that only splices.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

import { Daemon, descendants, sleep, until } from '../integration/lib.mjs';
import { program, summary } from './measure.mjs';

const ADDRESS = '93.184.216.34';
const OTHER = '93.184.216.35'; // redirected
const RESOLVER = '93.184.216.53';
const PORT = '7000';
const RELAY = '7001';
const BYTES = '1000000000';
const CALLS = '1000000';
const LOOKS = '300000';
const LOOKED_AT = '/usr/bin/env';
const OWN_FILE = '/workspace/netload'; // and outside a path as long
const AT_ONCE = 4;
const PASTA_TRIES = 3;
const REST_MS = 6000; // after which nobody in an idle sandbox waits for a first command

const numbers = (text) => text.trim().split('\n').map(Number);

async function output(file, args) {
	const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'ignore'] });
	const timer = setTimeout(() => child.kill('SIGKILL'), 10000);
	let text = '';
	child.stdout.on('data', (part) => (text += part));
	const [code] = await once(child, 'close');
	clearTimeout(timer);
	if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
	return numbers(text);
}

/** A process that holds a network namespace with our addresses on its loopback. */
async function namespace() {
	const own = fs.readlinkSync('/proc/self/ns/net');
	const addresses = [ADDRESS, OTHER, RESOLVER].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
	// pasta wants to see a way out, wherever it leads: here, back to ourselves.
	const uplink = 'ip link add up0 type veth peer name up1 && ip link set up1 up && ip addr add 192.0.2.2/24 dev up0 && ip link set up0 up && ip route add default via 192.0.2.1';
	const holder = spawn('unshare', ['--net', 'sh', '-c', `ip link set lo up && ${addresses} && { ${uplink}; exec sleep infinity; }`], { stdio: 'ignore' });
	await until(() => fs.readlinkSync(`/proc/${holder.pid}/ns/net`) !== own && fs.readFileSync(`/proc/${holder.pid}/comm`, 'utf8') === 'sleep\n', 'a namespace');
	return holder;
}

const has = (file) => spawnSync('sh', ['-c', `command -v ${file}`]).status === 0;

/** Where the client runs: {name, run(verb, ...args)}; args of ping and bulk begin with address and port. */
async function places(cloche, enter) {
	const load = program('netload');
	const here = (...args) => output('nsenter', [...enter, load, ...args]);
	const copy = path.join(os.tmpdir(), `netload-${process.pid}`);
	fs.copyFileSync(load, copy);
	const list = [{ name: 'native', to: ADDRESS, run: here, own: copy }];
	const box = async (name, to, body) => {
		const { id } = await cloche.create(body);
		await cloche.ok(['sandbox', 'cp', load, `${id}:/tmp/netload`]);
		await cloche.exec(id, `chmod 755 /tmp/netload; cp /tmp/netload ${OWN_FILE}; getent hosts bench.test`);
		list.push({ name, to, run: async (...args) => numbers((await cloche.exec(id, ['/tmp/netload', ...args], { timeoutMs: 60000 })).stdout) });
	};
	await box('none', null, { network: 'none' });
	await box('range', ADDRESS, { network: 'none', allow: ['bench.test'], allowCidrs: [`${ADDRESS}/32:${PORT}`] });
	await box('full', ADDRESS, { network: 'full', allowCidrs: [`${ADDRESS}/32`] });
	if (has('nft')) {
		const rules = `add table ip bench; add chain ip bench out { type nat hook output priority -100; }; add rule ip bench out ip daddr ${OTHER} tcp dport ${PORT} redirect to :${RELAY}`;
		if (spawnSync('nsenter', [...enter, 'nft', rules]).status === 0) list.push({ name: 'redirect', to: OTHER, run: here });
	}
	if (has('pasta')) list.push({ name: 'pasta', to: '127.0.0.1', run: (...args) => output('nsenter', [...enter, 'pasta', '--runas', '0', '-q', '-f', '--config-net', '-t', 'none', '-u', 'none', '-U', 'none', '-T', PORT, '--', load, ...args]) });
	return list;
}

/** Every place in turn, `rounds` times: {place: {ping, bulk, calls, stats, own}}; pasta may fail a few times. */
async function measure(list, rounds) {
	const samples = Object.fromEntries(list.map(({ name }) => [name, { ping: [], bulk: [], calls: [], stats: [], own: [], failures: 0 }]));
	for (let i = 0; i < rounds; i++)
		for (const { name, to, run, own = OWN_FILE } of list) {
			const into = samples[name];
			if (into.failures === PASTA_TRIES) continue;
			try {
				if (to) into.ping.push(...(await run('ping', to, PORT, '100')));
				if (to) into.bulk.push(...(await run('bulk', to, PORT, BYTES)));
				if (!['native', 'range', 'none'].includes(name)) continue;
				into.calls.push(...(await run('calls', CALLS)));
				into.stats.push(...(await run('stats', LOOKED_AT, LOOKS)));
				into.own.push(...(await run('stats', own, LOOKS)));
			} catch (error) {
				if (name !== 'pasta') throw error;
				into.failures++;
			}
		}
	return samples;
}

/** Processes that one more sandbox brings, of `count`. */
export async function processes(cloche, body, count) {
	await sleep(REST_MS);
	const before = descendants(cloche.child.pid).length;
	const ids = [];
	for (let i = 0; i < count; i += AT_ONCE) ids.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => cloche.get('POST', '/sandboxes', body)))).map(({ id }) => id));
	await sleep(REST_MS);
	const each = (descendants(cloche.child.pid).length - before) / ids.length;
	for (const id of ids) await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	await until(() => descendants(cloche.child.pid).length <= before, 'they are gone', 120000);
	return each;
}

// Refused in four ways, each a kind of its own, and each twice: the second is counted, and told with its like.
const REFUSED = `import socket
def refuse(what):
    try: what()
    except OSError: pass
for turn in range(2):
    for port in range(2000, 2012):
        refuse(lambda: socket.create_connection(("${OTHER}", port), 5).recv(1))
        refuse(lambda: socket.socket(2, 2).sendto(b"x", ("${OTHER}", port)))
        refuse(lambda: socket.getaddrinfo(f"n{port}.test", 80))
    for family in 15, 17, 21, 29, 30, 31, 38, 40: refuse(lambda: socket.socket(family, 3))`;

/** Milliseconds from each refusal until its event was stored; both clocks are this machine's. */
async function latencies(cloche) {
	const { id } = await cloche.create({ network: 'none' });
	await cloche.exec(id, ['python3', '-c', REFUSED], { timeoutMs: 60000 });
	const read = async () => (await cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.network&limit=1000`)).items.filter((one) => one.data.verdict === 'deny');
	const has = (list, proto) => list.filter((one) => one.data.proto === proto);
	await until(async () => { const list = await read(); return ['tcp', 'udp', 'dns'].every((one) => has(list, one).length >= 24) && has(list, 'socket').length >= 16; }, 'every refusal is told', 30000);
	const list = await read();
	await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	const seen = new Set();
	const found = { first: [], counted: [] };
	for (const { time, data } of list) {
		const kind = JSON.stringify([data.proto, data.host, data.address, data.port, data.rule]);
		found[seen.has(kind) ? 'counted' : 'first'].push(Date.parse(time) - Date.parse(data.decidedAt));
		seen.add(kind);
	}
	return found;
}

function rows(samples, dns, told, each, count) {
	const median = (list) => ({ median: summary(list).median });
	const peers = [['native', 'loopback, no sandbox'], ['redirect', 'nft redirect and splice'], ['pasta', 'pasta -T']];
	const found = [];
	for (const [ours, what] of [['range', 'through a policy'], ['full', 'under full']])
		for (const [theirs, peer] of peers) {
			const { ping, bulk } = samples[theirs] ?? { ping: [], bulk: [] };
			if (ping.length) found.push({ row: 8, what: `connect and first byte, ${what}`, unit: 'µs', ours: summary(samples[ours].ping), peer, theirs: summary(ping), ...(theirs === 'native' ? { goal: { most: 4 } } : { goal: {} }) });
			if (bulk.length) found.push({ row: 8, what: `bytes, ${what}`, unit: 'GB/s', ours: median(samples[ours].bulk), peer, theirs: median(bulk), ...(theirs === 'redirect' ? { goal: {} } : { goal: { least: theirs === 'native' ? 0.4 : 1 } }) });
		}
	for (const [theirs, peer, goal] of [['none', 'the same sandbox without one', { most: 1.05 }], ['native', 'no sandbox', {}]]) {
		found.push({ row: 8, what: 'two system calls, with a policy', unit: 'ns', ours: median(samples.range.calls), peer, theirs: median(samples[theirs].calls), goal });
		found.push({ row: 8, what: `\`stat\` of ${LOOKED_AT}, with a policy`, unit: 'ns', ours: median(samples.range.stats), peer, theirs: median(samples[theirs].stats), goal });
	}
	found.push({ row: 8, what: '`stat` of a file in the workspace, with a policy', unit: 'ns', ours: median(samples.range.own), peer: 'a file, no sandbox', theirs: median(samples.native.own), goal: { most: 1.05 } });
	found.push({ row: 8, what: 'a name from the cache', unit: 'µs', ours: summary(dns.inside), peer: 'a server on the loopback', theirs: summary(dns.native), goal: {} });
	found.push({ row: 8, what: 'a name from the cache', unit: 'µs', ours: summary(dns.inside), peer: 'what it may take', theirs: { median: 200 }, goal: { most: 1 } });
	for (const [name, what] of [['first', 'refusals until the event, slowest'], ['counted', 'refusals told with their like, slowest']])
		found.push({ row: 8, what: `${what} of ${told[name].length}`, unit: 'ms', ours: { median: Math.max(...told[name]) }, peer: 'what it may take', theirs: { median: 1000 }, goal: { most: 1 } });
	found.push({ row: 8, what: `processes a sandbox, ${count} with a policy`, unit: '', ours: { median: each.policy }, peer: 'without', theirs: { median: each.none }, goal: { most: 1 } });
	return found;
}

export async function network({ count, rounds = 6 }) {
	const holder = await namespace();
	const enter = ['-t', String(holder.pid), '-n', '--'];
	const helpers = [];
	const help = async (...args) => {
		const child = spawn('nsenter', [...enter, program('netload'), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
		helpers.push(child);
		await once(child.stdout, 'data');
	};
	await help('serve', '0.0.0.0', PORT);
	await help('relay', RELAY, PORT);
	await help('names', RESOLVER, ADDRESS);
	const cloche = await Daemon.start({ enter: holder.pid, config: `[sandboxes.default]\npool = 0\n[network]\nresolvers = ["${RESOLVER}"]\n` });
	try {
		const list = await places(cloche, enter);
		const samples = await measure(list, rounds);
		fs.rmSync(list[0].own);
		const dns = { inside: await list.find((one) => one.name === 'range').run('ask', '192.0.0.1', '300'), native: await list[0].run('ask', RESOLVER, '300') };
		const told = await latencies(cloche);
		const each = { none: await processes(cloche, {}, count), policy: await processes(cloche, { allow: ['bench.test'] }, count) };
		await cloche.stop();
		return rows(samples, dns, told, each, count);
	} finally {
		await cloche.discard();
		for (const child of [...helpers, holder]) child.kill('SIGKILL');
	}
}
