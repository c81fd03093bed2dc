// What asking "may this caller do this" costs: an authorised request against one that anybody may
// make, on one kept connection each, in turns; then again with 10,000 keys in the store.
// Usage: CLOCHE_BUILD=build node tests/bench/auth.mjs [REQUESTS]
import http from 'node:http';

import { Daemon } from '../integration/lib.mjs';

const requests = Number(process.argv[2] ?? 4000);
const KEYS = 10000;

/** Sequential requests on one connection; resolves to microseconds of each. */
function line(where, path, headers) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	return () =>
		new Promise((resolve, reject) => {
			const begun = process.hrtime.bigint();
			http.get({ ...where, path, headers, agent }, (response) => {
				if (response.statusCode !== 200) reject(new Error(`${path}: ${response.statusCode}`));
				response.resume();
				response.on('end', () => resolve(Number(process.hrtime.bigint() - begun) / 1000));
			}).on('error', reject);
		});
}

const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];

async function measure(lines) {
	const times = lines.map(() => []);
	for (let i = 0; i < requests; i++)
		for (let which = 0; which < lines.length; which++) {
			const us = await lines[which]();
			if (i > requests / 10) times[which].push(us); // the first are for warming up
		}
	return times.map((list) => list.toSorted((a, b) => a - b)).map((sorted) => ({ p50: at(sorted, 0.5), p95: at(sorted, 0.95) }));
}

const daemon = await Daemon.start({ listen: '127.0.0.1:0', config: '[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n' });
try {
	const { secret } = await daemon.key({ name: 'bench' });
	const where = await daemon.tcp();
	const bearer = { authorization: `Bearer ${secret}` };
	const open = () => [
		line(where, '/api/v1/health', {}),
		line(where, '/api/v1/capabilities', bearer),
		line({ socketPath: daemon.socket }, '/api/v1/health', {}),
		line({ socketPath: daemon.socket }, '/api/v1/capabilities', {}),
	];
	const show = (title, [floor, key, socketFloor, socket]) => {
		const us = (value) => value.toFixed(0).padStart(5);
		console.log(title);
		console.log(`  TCP     anybody  p50 ${us(floor.p50)} µs  p95 ${us(floor.p95)}    with a key    p50 ${us(key.p50)} µs  p95 ${us(key.p95)}    difference of medians ${us(key.p50 - floor.p50)} µs`);
		console.log(`  socket  anybody  p50 ${us(socketFloor.p50)} µs  p95 ${us(socketFloor.p95)}    as operator   p50 ${us(socket.p50)} µs  p95 ${us(socket.p95)}    difference of medians ${us(socket.p50 - socketFloor.p50)} µs`);
	};
	show('1 key', await measure(open()));
	for (let made = 0; made < KEYS; made += 200) await Promise.all(Array.from({ length: 200 }, (_, i) => daemon.key({ name: `k${made + i}` })));
	show(`${KEYS} keys`, await measure(open()));
} finally {
	await daemon.stop();
}
