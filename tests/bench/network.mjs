// Row 8: what the gateway costs. A server on the loopback of a namespace of its own, where the daemon lives, too; the same
// client outside and inside a sandbox whose policy allows the server's address.
import fs from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { Daemon, until } from '../integration/lib.mjs';
import { program, summary } from './measure.mjs';

const ADDRESS = '93.184.216.34';
const PORT = '7000';
const BYTES = '1500000000';

async function output(file, args) {
	const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
	let text = '';
	child.stdout.on('data', (part) => (text += part));
	const [code] = await once(child, 'close');
	if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
	return text.trim().split('\n').map(Number);
}

/** A process that holds a network namespace with the address on its loopback. */
async function namespace() {
	const own = fs.readlinkSync('/proc/self/ns/net');
	const holder = spawn('unshare', ['--net', 'sh', '-c', `ip link set lo up && ip addr add ${ADDRESS}/32 dev lo && exec sleep infinity`], { stdio: 'ignore' });
	await until(() => fs.readlinkSync(`/proc/${holder.pid}/ns/net`) !== own && fs.readFileSync(`/proc/${holder.pid}/comm`, 'utf8') === 'sleep\n', 'a namespace');
	return holder;
}

async function measure(cloche, enter, rounds) {
	const { id } = await cloche.create({ network: 'none', allowCidrs: [`${ADDRESS}/32:${PORT}`] });
	const load = program('netload');
	await cloche.ok(['sandbox', 'cp', load, `${id}:/tmp/netload`]);
	const outside = (...args) => output('nsenter', [...enter, load, ...args]);
	const inside = async (...args) => (await cloche.exec(id, ['/tmp/netload', ...args], { timeoutMs: 60000 })).stdout.trim().split('\n').map(Number);
	const samples = { pingOutside: [], pingInside: [], bulkOutside: [], bulkInside: [] };
	for (let i = 0; i < rounds; i++) {
		samples.pingOutside.push(...(await outside('ping', ADDRESS, PORT, '100')));
		samples.pingInside.push(...(await inside('ping', ADDRESS, PORT, '100')));
		samples.bulkOutside.push(...(await outside('bulk', ADDRESS, PORT, BYTES)));
		samples.bulkInside.push(...(await inside('bulk', ADDRESS, PORT, BYTES)));
	}
	return samples;
}

export async function network({ rounds = 6 } = {}) {
	const holder = await namespace();
	const enter = ['-t', String(holder.pid), '-n', '--'];
	const server = spawn('nsenter', [...enter, program('netload'), 'serve', ADDRESS, PORT], { stdio: ['ignore', 'pipe', 'inherit'] });
	await once(server.stdout, 'data');
	const cloche = await Daemon.start({ enter: holder.pid });
	try {
		const { pingOutside, pingInside, bulkOutside, bulkInside } = await measure(cloche, enter, rounds);
		const peer = 'loopback, no sandbox';
		await cloche.stop();
		return [
			{ row: 8, what: 'connect and first byte through a policy', unit: 'µs', ours: summary(pingInside), peer, theirs: summary(pingOutside), goal: { most: 4 } },
			{ row: 8, what: 'bytes through a policy', unit: 'GB/s', ours: { median: summary(bulkInside).median }, peer, theirs: { median: summary(bulkOutside).median }, goal: { least: 0.4 } },
		];
	} finally {
		await cloche.discard();
		server.kill('SIGKILL');
		holder.kill('SIGKILL');
	}
}
