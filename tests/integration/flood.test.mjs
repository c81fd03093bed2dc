// Wearing the gateway out, and the odd kinds of questions, sockets and hellos (tests/confine/flood.c): what is denied
// stays denied, what is allowed works afterwards, and neither the neighbour nor the daemon feels it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, isRoot, openFiles, probeBin, residentBytes, until } from './lib.mjs';

const A = '93.184.216.34';
const B = '93.184.216.35';
const ARGS = ['name=example.test', `address=${A}`, `other=${B}`, 'other6=2606:2800:220:1::35', 'unlisted=other.test'];

describe('floods and odd kinds', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let internet, cloche, box, neighbour;
	before(async () => {
		internet = await Internet.start();
		await internet.names({
			'example.test': { a: [A] },
			'other.test': { a: [B] },
			'denied.test': { a: [B] },
			'alias.test': { cname: 'denied.test' },
			// A name that is a pointer to itself, behind a count of one.
			'circle.test': { raw: Buffer.from([0xc0, 0x1d, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34]).toString('base64') },
		});
		cloche = await Daemon.start({ enter: internet.enter, config: `[sandboxes.default]\npool = 0\n[network]\nresolvers = ["${RESOLVER}"]\n[services.echo]\nupstream = "http://${A}/echo"\n` });
		await cloche.get('POST', '/environments', { name: 'few', allowedDomains: ['example.test', 'alias.test', 'circle.test'], deniedDomains: ['denied.test'] });
		box = (await cloche.create({ network: 'few' })).id;
		neighbour = (await cloche.create({ allow: ['example.test'] })).id;
		await cloche.ok(['sandbox', 'cp', probeBin(), `${box}:/workspace/probe`]);
		await cloche.exec(box, 'chmod 755 /workspace/probe');
		internet.clear();
	});
	after(async () => {
		await cloche?.stop();
		await internet?.stop();
	});

	const decisions = async () => (await cloche.get('GET', `/sandboxes/${box}/events?kind=sandbox.network&limit=1000`)).items.map((one) => one.data);
	const decided = (wanted) => until(async () => (await decisions()).find((one) => Object.entries(wanted).every(([key, value]) => one[key] === value)), `a decision ${JSON.stringify(wanted)}`);
	const probe = async (args, user = 'agent') => {
		const result = await cloche.exec(box, ['/workspace/probe', 'flood', ...ARGS, ...args], { user, timeoutMs: 300000 });
		assert.equal(result.exitCode, 0, result.stdout + result.stderr);
		return result.stdout;
	};

	for (const user of ['root']) // as `agent`: attempts.test.mjs
		test(`X01, X03, X04, X05, X10, X11, X17 as ${user}`, { timeout: 200000 }, async () => {
			await probe(['alias=alias.test', 'circle=circle.test'], user);
			assert.deepEqual(internet.left().filter((row) => !new RegExp(`^tcp ${A} (22|80|443)$`).test(row)), []);
			assert.deepEqual(internet.asked(), ['alias.test', 'circle.test', 'example.test']);
			for (const wanted of [
				{ proto: 'dns', host: 'denied.test', rule: 'deny denied.test (environment)' },
				{ proto: 'udp', address: B, port: 443 },
				{ proto: 'udp', address: B, port: 9999 },
				{ proto: 'dns', host: 'other.test' },
				{ proto: 'tcp', host: 'other.test', port: 443 },
			])
				await decided({ verdict: 'deny', ...wanted });
		});

	test('X20: thousands of connections that say half of something', { timeout: 300000 }, async () => {
		const keeper = { pid: Number(/pid[= ](\d+)/.exec(fs.readFileSync(path.join(cloche.state, 'sandboxes', box, 'keeper'), 'utf8'))[1]) };
		const before = { daemon: openFiles(cloche.daemonProcess().pid), keeper: openFiles(keeper.pid) };
		let most = 0;
		const watch = setInterval(() => (most = Math.max(most, openFiles(cloche.daemonProcess().pid))), 50);
		const attempts = ['connections that say nothing', 'half a hello each', 'half a request each', 'many that are denied', 'half a call of a service each', 'half a question each', 'one more in a full house'];
		try {
			for (const only of attempts) {
				const flood = probe(['patient=1', `only=${only}`]);
				// Meanwhile, next door and outside.
				const { stdout } = await cloche.exec(neighbour, `curl -sS -m 30 -o /dev/null -w '%{http_code}' http://example.test/`);
				assert.equal(stdout, '200', only);
				assert.equal((await cloche.api('GET', '/health')).status, 200);
				await flood;
			}
		} finally {
			clearInterval(watch);
		}
		await decided({ verdict: 'deny', rule: 'the sandbox has too many connections' });
		assert.ok(most - before.daemon < 200, `${most} descriptors in the daemon, ${before.daemon} before`);
		await until(() => openFiles(keeper.pid) < before.keeper + 80, 'the keeper lets go of them', 60000);
		assert.ok(residentBytes(keeper.pid) < 64 * 2 ** 20, `${residentBytes(keeper.pid)} bytes in the keeper`);
		const call = await cloche.exec(box, `curl -sS -i -m 20 http://echo.cloche.internal/`);
		assert.match(call.stdout, /"host"/, call.stdout + call.stderr);
	});
});

describe('caps and endings', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let internet, cloche;
	before(async () => {
		internet = await Internet.start();
		await internet.names({ 'example.test': { a: [A] } });
		cloche = await Daemon.start({ enter: internet.enter, config: `[sandboxes.default]\npool = 0\n[network]\nresolvers = ["${RESOLVER}"]\n` });
	});
	after(async () => {
		await cloche?.stop();
		await internet?.stop();
	});

	test('X20: datagrams are capped, too, and counted while they flow', async () => {
		const CAP = 100000;
		await cloche.get('POST', '/environments', { name: 'capped', level: 'full', egressBytes: CAP });
		const { id } = await cloche.create({ network: 'capped' });
		const send = (count) => `node -e '
			const s = require("dgram").createSocket("udp4"); let n = 0;
			s.on("error", () => {});
			const next = () => (n++ < ${count} ? s.send(Buffer.alloc(1000), 9999, "${A}", () => setTimeout(next, 1)) : s.close());
			next();'`;
		await cloche.exec(id, send(30));
		const row = async () => (await cloche.get('GET', `/sandboxes/${id}/network`)).hosts.find((one) => one.proto === 'udp' && one.port === 9999);
		await until(async () => (await row())?.sent === 30000, 'all is counted before the exchange is over', 10000);
		await cloche.exec(id, send(300));
		const all = async () => (await cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.network&limit=1000`)).items.map((one) => one.data);
		await until(async () => (await all()).some((one) => one.verdict === 'deny' && one.proto === 'udp' && one.rule === 'the sandbox has sent all the bytes it may'), 'it is told');
		const left = internet.log.filter((one) => one.udp).reduce((sum, one) => sum + one.bytes, 0);
		assert.ok(left <= CAP && left >= CAP * 0.98, `${left} bytes left`);
		assert.equal((await row()).sent, left);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('nothing leaves while the gateway stands still, nor when it is gone', async () => {
		const { id } = await cloche.create({ allow: ['example.test'] });
		const keeper = Number(/pid=(\d+)/.exec(fs.readFileSync(path.join(cloche.state, 'sandboxes', id, 'keeper'), 'utf8'))[1]);
		await cloche.get('POST', `/sandboxes/${id}/execs`, { background: true, shell: `while :; do curl -s -m 5 -o /dev/null http://example.test/; done` });
		await until(() => internet.log.some((one) => one.web === 'example.test'), 'it is reached');
		process.kill(keeper, 'SIGSTOP');
		await new Promise((resolve) => setTimeout(resolve, 500)); // what was on its way
		internet.clear();
		await new Promise((resolve) => setTimeout(resolve, 1000));
		assert.deepEqual(internet.left(), []);
		process.kill(keeper, 'SIGCONT');
		await until(() => internet.log.some((one) => one.web === 'example.test'), 'it is reached again');
		process.kill(keeper, 'SIGKILL');
		await until(async () => (await cloche.get('GET', `/sandboxes/${id}`)).state !== 'running', 'it is over');
		internet.clear();
		await new Promise((resolve) => setTimeout(resolve, 500));
		assert.deepEqual(internet.left(), []);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});
});

test('slow clients of the TCP listener do not stop others', { timeout: 120000 }, async () => {
	const cloche = await Daemon.start({ listen: '127.0.0.1:0' });
	const sockets = [];
	try {
		const { host, port } = await cloche.tcp();
		const before = openFiles(cloche.daemonProcess().pid);
		for (let i = 0; i < 1500; i++) {
			const socket = net.connect(port, host);
			socket.on('error', () => {});
			socket.write(i % 2 ? 'GET /api/v1/health HTTP/1.1\r\nHost: loc' : `POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Length: 1000\r\n\r\n{`);
			sockets.push(socket);
		}
		for (let i = 0; i < 5; i++) assert.equal((await cloche.api('GET', '/health')).status, 200);
		assert.ok(openFiles(cloche.daemonProcess().pid) - before < 1400, 'what one listener holds is bounded');
		for (const socket of sockets) socket.destroy();
		const key = await cloche.key({ name: 'later', scopes: ['sandboxes:read'] });
		const caller = await cloche.as(key.secret);
		await until(async () => (await caller.api('GET', '/sandboxes').catch(() => ({}))).status === 200, 'the listener answers');
	} finally {
		for (const socket of sockets) socket.destroy();
		await cloche.stop();
	}
});
