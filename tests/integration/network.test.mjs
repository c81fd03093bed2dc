// What leaves a sandbox, tried from inside against an internet of our own (lib/internet.mjs): every
// packet that leaves the daemon's namespace is seen there, so what is denied must not show up.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, isAlive, isRoot, ordinaryUser, probeBin, until } from './lib.mjs';

const needsRoot = isRoot ? false : 'needs root to make network namespaces';

const NAMES = {
	'example.test': { a: ['93.184.216.34'], aaaa: ['2606:2800:220:1::34'] },
	'other.test': { a: ['93.184.216.35'], aaaa: ['2606:2800:220:1::35'] },
	'learn.test': { a: ['93.184.216.36'] },
	'zone.test': { a: ['93.184.216.37'] },
	'*.zone.test': { a: ['93.184.216.37'] },
	'rebind.test': { a: ['10.0.0.5', '169.254.169.254', '127.0.0.1'], aaaa: ['fd00:ec2::254', '::1'] },
	'flip.test': { a: ['93.184.216.34'], flip: ['10.0.0.5'], ttl: 0 },
	'long.test': { a: ['93.184.216.34'], truncate: true },
	'dead.test': { a: ['93.184.216.99', '93.184.216.34'] },
	'silent.test': { silent: true },
	'text.test': { txt: 'some text', a: ['93.184.216.34'] },
};

const config = (pool = 0) => `[sandboxes.default]\npool = ${pool}\n[network]\nresolvers = ["${RESOLVER}"]\n`;

/** A daemon in a test internet, one for all tests of a describe(). */
function withInternet(options = {}) {
	const held = {};
	before(async () => {
		held.net = await Internet.start();
		await held.net.names(NAMES);
		held.cloche = await Daemon.start({ ...options, enter: held.net.enter, config: config(options.pool) });
	});
	after(async () => {
		await held.cloche?.stop();
		await held.net?.stop();
	});
	return held;
}

/** A sandbox with the CA in a file; sh(line) runs in it: {code, stdout, stderr}. */
async function box(held, network, more = {}) {
	const { cloche, net } = held;
	const { id } = await cloche.create({ network, degraded: Boolean(cloche.user), ...more });
	const sh = async (line, options) => {
		const result = await cloche.exec(id, line, options);
		return { ...result, code: result.exitCode };
	};
	await cloche.exec(id, 'cat > /tmp/ca.pem <<"END"\n' + net.ca + 'END');
	const decisions = async () => {
		const { items } = await cloche.get('GET', `/sandboxes/${id}/events?limit=1000`);
		return items.filter((one) => one.kind === 'sandbox.network').map((one) => one.data);
	};
	/** Waits for a decision that has these members. */
	const decided = (wanted) =>
		until(async () => (await decisions()).find((one) => Object.entries(wanted).every(([key, value]) => one[key] === value)), `a decision ${JSON.stringify(wanted)}`);
	net.clear();
	return { id, sh, decisions, decided, set: (body) => cloche.get('PUT', `/sandboxes/${id}/network`, body) };
}

/** Three datagrams to a host, and what comes back. */
const udp = (host, family) => `node -e '
	const s = require("dgram").createSocket("${family}"); let n = 0;
	s.on("message", (m, from) => { console.log(String(m), from.address, from.port); if (++n === 3) process.exit(0); });
	for (const t of ["a", "b", "c"]) s.send(t, 9999, "${host}"); setTimeout(() => process.exit(1), 3000);'`;

const CURL = 'curl -sS -m 10 --cacert /tmp/ca.pem';

describe('network policy', { skip: needsRoot }, () => {
	const held = withInternet();

	test('the command line: an allowed name is reached, another is not', async () => {
		const { cloche, net } = held;
		const run = (line) => cloche.cli(['run', '-e', `CA=${net.ca}`, '--allow', 'example.test', '--', 'sh', '-c', `echo "$CA" > /tmp/ca.pem; ${line}`]);
		const good = await run(`${CURL} https://example.test/`);
		assert.equal(good.code, 0, good.stderr);
		assert.deepEqual(JSON.parse(good.stdout), { host: 'example.test', to: '93.184.216.34', bytes: 0 });
		net.clear();
		const bad = await run(`${CURL} https://other.test/`);
		assert.equal(bad.code, 6, 'curl says that there is no such host');
		assert.deepEqual(net.left(), []);
		assert.deepEqual(net.asked(), [], 'not even its name left the machine');
	});

	test('nothing leaves without a policy, and each attempt is told', async () => {
		const { net } = held;
		const none = await box(held, 'none');
		for (const line of [`${CURL} https://example.test/`, `${CURL} http://93.184.216.34/`, `${CURL} -g 'http://[2606:2800:220:1::34]/'`, `${CURL} http://169.254.169.254/latest/`, `${CURL} -x http://93.184.216.34:3128 http://example.test/`])
			assert.ok(![0, 28].includes((await none.sh(line)).code), `${line}: refused, never a hang`);
		await none.decided({ verdict: 'deny', proto: 'dns', host: 'example.test', program: 'curl' });
		await none.decided({ verdict: 'deny', proto: 'tcp', address: '93.184.216.34', port: 80 });
		await none.decided({ verdict: 'deny', proto: 'tcp', address: '2606:2800:220:1::34', port: 80 });
		const { stdout } = await none.sh('cat /run/cloche/denials');
		assert.match(stdout, /deny dns example\.test by curl\[\d+\]: this sandbox has no network; start it with --allow example\.test/);
		assert.deepEqual(net.left(), []);
		assert.deepEqual(net.asked(), []);
	});

	test('loopback is the sandbox’s own, and other families are refused', async () => {
		const none = await box(held, 'none');
		const line = `node -e '
			const net = require("net");
			const server = net.createServer((s) => s.end("mine")).listen(8080, "0.0.0.0", () => {
				let left = 2;
				for (const host of ["127.0.0.1", "192.0.0.2"])
					net.connect(8080, host).on("data", (d) => { console.log(host, String(d)); if (!--left) process.exit(0); });
			});'`;
		assert.equal((await none.sh(line)).stdout, '127.0.0.1 mine\n192.0.0.2 mine\n');
		assert.notEqual((await none.sh('ping -c 1 -W 1 93.184.216.34')).code, 0);
		assert.match((await none.sh('getent hosts localhost')).stdout, /localhost/);
	});

	test('the name, the address and what the client says must agree', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const refused = async (line, wanted) => {
			assert.notEqual((await some.sh(line)).code, 0, line);
			await some.decided({ verdict: 'deny', ...wanted });
		};
		assert.equal((await some.sh(`${CURL} https://example.test/`)).code, 0);
		assert.equal((await some.sh(`${CURL} http://example.test/`)).code, 0);
		await some.decided({ verdict: 'allow', host: 'example.test', port: 443, address: '93.184.216.34' });
		net.clear();
		// Another name at the allowed address; the allowed name at another address; no name at all.
		await refused(`${CURL} -k --connect-to other.test:443:example.test:443 https://other.test/`, { host: 'other.test', port: 443 });
		await refused(`${CURL} --resolve example.test:443:93.184.216.35 https://example.test/`, { address: '93.184.216.35', port: 443 });
		await refused(`${CURL} -k https://93.184.216.34/`, { address: '93.184.216.34', port: 443 });
		await refused(`${CURL} -H 'X-Key: cloche_placeholder_llm' http://example.test/`, { host: 'example.test', port: 80, rule: 'the placeholder of a service was sent to example.test' });
		await refused(`${CURL} -H 'Host: other.test' http://example.test/`, { host: 'other.test', port: 80 });
		await refused(`${CURL} http://93.184.216.35/`, { address: '93.184.216.35', port: 80 });
		await refused(`${CURL} http://example.test:8080/`, { host: 'example.test', port: 8080 });
		await refused(`printf 'SSH-2.0-x\\r\\n' | timeout 5 node -e '
			const s = require("net").connect(443, "example.test"); process.stdin.pipe(s);
			s.on("error", () => process.exit(1)).on("close", () => process.exit(1)).on("data", () => process.exit(0));'`, { port: 443 });
		assert.deepEqual(net.left(), []);
	});

	for (const user of ['root']) // as `agent`: attempts.test.mjs
		test(`ways around the policy, as ${user}`, { timeout: 150000 }, async () => {
			const { cloche, net } = held;
			const some = await box(held, 'none', { allow: ['example.test'] });
			await cloche.ok(['sandbox', 'cp', probeBin(), `${some.id}:/workspace/probe`]);
			await some.sh('chmod 755 /workspace/probe');
			const args = ['name=example.test', 'address=93.184.216.34', 'other=93.184.216.35', 'other6=2606:2800:220:1::35', 'unlisted=other.test'];
			const result = await cloche.exec(some.id, ['/workspace/probe', 'egress', ...args], { user, timeoutMs: 120000 });
			assert.deepEqual(result.stdout.split('\n').filter((line) => line.startsWith('BROKEN')), []);
			assert.equal(result.exitCode, 0, result.stdout + result.stderr);
			assert.deepEqual(net.left().filter((row) => !/^tcp 93\.184\.216\.34 (22|80|443)$/.test(row)), []);
			assert.deepEqual(net.asked(), ['example.test']);
			for (const wanted of [
				{ proto: 'tcp', address: '93.184.216.35', port: 80 },
				{ proto: 'tcp', address: '2606:2800:220:1::35', port: 80 },
				{ proto: 'udp', address: '93.184.216.35', port: 9999 },
				{ proto: 'dns', host: 'other.test' },
				{ proto: 'tcp', host: 'other.test', port: 443 },
			])
				await some.decided({ verdict: 'deny', ...wanted });
		});

	test('ssh is judged by the address alone', async () => {
		const some = await box(held, 'none', { allow: ['example.test'] });
		const banner = (host) => `node -e '
			const s = require("net").connect(22, "${host}");
			s.on("data", (d) => { process.stdout.write(d); process.exit(0); }).on("error", (e) => { console.log(e.code); process.exit(1); }).on("close", () => process.exit(1));'`;
		assert.match((await some.sh(banner('example.test'))).stdout, /hello from 93\.184\.216\.34 22/);
		assert.notEqual((await some.sh(banner('93.184.216.35'))).code, 0);
	});

	test('requests that follow on one connection are judged, too', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		// Ends when it has seen enough, when it is cut, or after a while.
		const send = (parts, enough = '$^', ms = 700) => `node -e '
			const s = require("net").connect(80, "example.test");
			const parts = ${JSON.stringify(parts).replaceAll("'", "\\u0027")};
			let seen = "";
			s.on("data", (d) => { seen += d; if (/${enough}/.test(seen)) return done(); if (parts.length) s.write(parts.shift()); });
			const done = () => { console.log(seen); process.exit(0); };
			s.on("error", done).on("close", done);
			s.write(parts.shift());
			setTimeout(done, ${ms});'`;
		const get = (host, more = '') => `GET / HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`;
		const good = await some.sh(send([get('example.test'), get('example.test')], '200 OK[^]*200 OK', 10000));
		assert.equal(good.stdout.match(/200 OK/g)?.length, 2, good.stdout);
		const bad = [
			[get('example.test'), get('other.test')],
			[get('example.test') + get('other.test')],
			[`POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${get('other.test')}`],
			[`POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 2\r\n\r\nhi${get('other.test')}`],
			[`POST / HTTP/1.1\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\n\r\n`],
			[`GET / HTTP/1.1\r\nHost: example.test\r\n Host: other.test\r\n\r\n`],
			[`GET / HTTP/1.1\nHost: other.test\n\n`],
			[`GET http://other.test/ HTTP/1.1\r\nHost: example.test\r\n\r\n`],
			[`CONNECT other.test:443 HTTP/1.1\r\nHost: example.test\r\n\r\n`],
			['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
		];
		for (const parts of bad) {
			net.clear();
			await some.sh(send(parts));
			const hosts = net.log.filter((row) => row.web).map((row) => row.web);
			assert.ok(!hosts.includes('other.test'), `${JSON.stringify(parts)}: ${hosts}`);
			assert.ok(hosts.length <= 1, `${JSON.stringify(parts)}: ${hosts}`);
		}
		// A WebSocket is let through, once the server agrees.
		const ws = await some.sh(send([get('example.test', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'), 'any bytes\n'], 'any bytes', 10000));
		assert.match(ws.stdout, /101 Switching[^]*any bytes/);
		// A wish for HTTP/2 is taken out.
		net.clear();
		await some.sh(send([get('example.test', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n')], '200 OK', 10000));
		assert.ok(net.log.some((row) => row.web === 'example.test' && !row.upgrade));
		assert.ok(!net.log.some((row) => row.upgrade));
	});

	test('IPv6 is judged as IPv4 is', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		assert.match((await some.sh(`${CURL} -6 https://example.test/`)).stdout, /2606:2800:220:1::34/);
		net.clear();
		assert.notEqual((await some.sh(`${CURL} -6 -k -g 'https://[2606:2800:220:1::35]/'`)).code, 0);
		assert.notEqual((await some.sh(`${CURL} -6 https://other.test/`)).code, 0);
		assert.deepEqual(net.left(), []);
		await some.decided({ verdict: 'deny', address: '2606:2800:220:1::35' });
	});

	test('no other resolver is asked, whatever a program believes', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const ask = (server, name, type) => `node -e '
			const { Resolver } = require("dns"); const r = new Resolver({ timeout: 1500, tries: 1 }); r.setServers(["${server}"]);
			r.resolve("${name}", "${type}", (e, a) => { console.log(e ? e.code : JSON.stringify(a)); });'`;
		assert.equal((await some.sh(ask('8.8.8.8', 'example.test', 'A'))).stdout, '["93.184.216.34"]\n');
		assert.equal((await some.sh(ask('[2001:4860:4860::8888]', 'example.test', 'A'))).stdout, '["93.184.216.34"]\n');
		for (const type of ['A', 'AAAA', 'TXT', 'MX', 'SRV', 'NS', 'CNAME', 'PTR', 'ANY'])
			assert.match((await some.sh(ask('8.8.8.8', 'other.test', type))).stdout, /ENOTFOUND/, type);
		for (const type of ['TXT', 'MX', 'SRV'])
			assert.match((await some.sh(ask('8.8.8.8', 'example.test', type))).stdout, /ENODATA/, type);
		assert.deepEqual(net.left(), []);
		assert.deepEqual(net.asked(), ['example.test']);
		await some.decided({ verdict: 'deny', proto: 'dns', host: 'other.test' });
	});

	test('DNS over TCP, long answers, dead addresses', async () => {
		const some = await box(held, 'none', { allow: ['long.test', 'dead.test', 'example.test'] });
		assert.match((await some.sh(`${CURL} http://long.test/`)).stdout, /93\.184\.216\.34/, 'the resolver is asked again over TCP');
		const overTcp = `node -e '
			const q = Buffer.concat([Buffer.from("0c10010000010000000000000765786d61706c650474657374000001", "hex")]);
			const m = Buffer.from("12340100000100000000000007" + Buffer.from("example").toString("hex") + "04" + Buffer.from("test").toString("hex") + "0000010001", "hex");
			const s = require("net").connect(53, "9.9.9.9"); const l = Buffer.alloc(2); l.writeUInt16BE(m.length);
			s.write(Buffer.concat([l, m, l, m])); let all = Buffer.alloc(0);
			s.on("data", (d) => { all = Buffer.concat([all, d]); if (all.length >= 2 * (2 + all.readUInt16BE(0))) { console.log(all.readUInt16BE(8), all.subarray(-4).join(".")); s.end(); } });'`;
		assert.equal((await some.sh(overTcp)).stdout, '1 93.184.216.34\n');
	});

	test('an allowed name that leads to forbidden addresses leads nowhere', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['rebind.test', 'flip.test'] });
		assert.notEqual((await some.sh(`${CURL} http://rebind.test/`)).code, 0);
		await some.decided({ verdict: 'deny', host: 'rebind.test' });
		assert.equal((await some.sh(`${CURL} http://flip.test/`)).code, 0);
		await some.sh('sleep 1.2'); // its time is over, and the answer is another now
		await some.sh(`${CURL} http://flip.test/ --resolve flip.test:80:10.0.0.5`);
		assert.deepEqual(net.left(), ['tcp 93.184.216.34 80']);
	});

	test('private, local and metadata addresses are closed under every policy, unless granted', async () => {
		const { net } = held;
		const full = await box(held, 'full');
		const closed = ['169.254.169.254', '10.0.0.5', '172.16.0.1', '192.168.1.1', '100.64.0.1', '127.0.0.1', '0.0.0.0', '224.0.0.1', '255.255.255.255', '[fd00:ec2::254]', '[::1]', '[fe80::1]', '[::ffff:10.0.0.5]', '[64:ff9b::a00:5]', '[2002:a00:5::1]', '0x0a000005', '167772165', '012.0.0.5', '93.184.1.2', '[2a00:93:1::2]'];
		for (const host of closed) assert.notEqual((await full.sh(`${CURL} -m 5 -g http://${host}/`)).code, 0, host);
		assert.deepEqual(net.left(), [], 'this machine’s own addresses are among them');
		await full.decided({ verdict: 'deny', address: '169.254.169.254', rule: 'metadata addresses are never reached' });
		await full.decided({ verdict: 'deny', address: '93.184.1.2' });
		const granted = await box(held, 'none', { allowCidrs: ['10.0.0.0/24'] });
		assert.match((await granted.sh(`${CURL} http://10.0.0.5/`)).stdout, /10\.0\.0\.5/);
		assert.notEqual((await granted.sh(`${CURL} http://10.0.1.5/`)).code, 0);
		assert.notEqual((await granted.sh(`${CURL} http://169.254.169.254/`)).code, 0);
		assert.deepEqual(net.left(), ['tcp 10.0.0.5 80']);
	});

	test('full: every public address and port, and UDP', async () => {
		const { net } = held;
		const full = await box(held, 'full');
		assert.equal((await full.sh(`${CURL} https://other.test/`)).code, 0);
		assert.match((await full.sh(`${CURL} http://93.184.216.99:8080/`)).stdout, /93\.184\.216\.99/);
		assert.match((await full.sh(udp('93.184.216.34', 'udp4'))).stdout, /^a 93\.184\.216\.34 9999\nb .*\nc .*\n$/);
		assert.match((await full.sh(udp('2606:2800:220:1::34', 'udp6'))).stdout, /^a 2606:2800:220:1::34 9999\n/);
		assert.match((await full.sh(`node -e 'require("dns").resolveTxt("text.test", (e, a) => console.log(e || a[0][0]))'`)).stdout, /some text/);
		await full.decided({ verdict: 'allow', proto: 'udp', address: '93.184.216.34', port: 9999 });
		const some = await box(held, 'none', { allow: ['example.test'] });
		assert.equal((await some.sh(udp('93.184.216.34', 'udp4'))).code, 1);
		await some.decided({ verdict: 'deny', proto: 'udp', address: '93.184.216.34', port: 9999 });
		assert.deepEqual(net.left(), []);
	});

	test('data does not leave by names below a wildcard', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['*.zone.test'] });
		assert.equal((await some.sh(`${CURL} https://a.zone.test/`)).code, 0);
		const leak = `node -e '
			const dns = require("dns").promises; const hex = require("crypto").randomBytes(32768).toString("hex");
			(async () => { for (let i = 0; i < hex.length; i += 180) {
				const labels = hex.slice(i, i + 180).match(/.{1,60}/g).join(".");
				await dns.resolve4(labels + ".zone.test").catch(() => {}); } })();'`;
		await some.sh(leak);
		const bytes = net.asked().reduce((sum, name) => sum + name.length, 0);
		assert.ok(bytes < 12 * 1024, `${bytes} bytes of names left`);
		await some.decided({ verdict: 'deny', proto: 'dns', rule: 'too many new names below a wildcard' });
		assert.equal((await some.sh(`${CURL} https://a.zone.test/`)).code, 0, 'what is known stays known');
	});

	test('a policy that is tightened cuts what it forbids', async () => {
		const { cloche } = held;
		const some = await box(held, 'none', { allow: ['example.test', 'other.test'] });
		const drip = (host) => cloche.get('POST', `/sandboxes/${some.id}/execs`, { shell: `${CURL} -m 60 -N https://${host}/drip`, background: true });
		const [stays, goes] = [await drip('example.test'), await drip('other.test')];
		const look = (exec) => cloche.get('GET', `/sandboxes/${some.id}/execs/${exec.id}`);
		await some.decided({ verdict: 'allow', host: 'other.test' });
		await some.decided({ verdict: 'allow', host: 'example.test' });
		const before = (await cloche.get('GET', `/sandboxes/${some.id}/network`)).policy.generation;
		await some.set({ network: 'none', allow: ['example.test'] });
		assert.ok((await cloche.get('GET', `/sandboxes/${some.id}/network`)).policy.generation > before);
		await until(async () => (await look(goes)).state === 'ended', 'the other download ends');
		assert.ok(![0, 28].includes((await look(goes)).exitCode), 'cut, not too late');
		assert.equal((await look(stays)).state, 'running');
		await some.decided({ verdict: 'deny', host: 'other.test', rule: 'a newer policy forbids this connection' });
		// A bad one changes nothing.
		assert.equal((await cloche.api('PUT', `/sandboxes/${some.id}/network`, { network: 'none', allow: ['not a name'] })).status, 400);
		assert.equal((await some.sh(`${CURL} https://example.test/`)).code, 0);
		await some.set({ network: 'none', allow: [] });
		await until(async () => (await look(stays)).state === 'ended', 'everything ends');
	});

	test('each connection is decided by one policy, however fast they change', async () => {
		const { cloche, net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const loop = await cloche.get('POST', `/sandboxes/${some.id}/execs`, {
			background: true,
			shell: `node -e '
				const net = require("net"); const dns = require("dns"); let on = true;
				const again = (host) => { if (on) { const s = net.connect(22, host); const next = () => { s.destroy(); setImmediate(again, host); }; s.on("data", next).on("error", () => setTimeout(next, 2)); } };
				for (const host of ["example.test", "other.test"]) for (let i = 0; i < 4; i++) again(host);'`,
		});
		await some.decided({ verdict: 'allow', host: 'example.test' });
		const rules = new Map([[1, 'example.test']]);
		for (let i = 0; i < 20; i++) {
			const host = i % 2 ? 'example.test' : 'other.test';
			const { generation } = (await some.set({ network: 'none', allow: [host] })).policy ?? (await cloche.get('GET', `/sandboxes/${some.id}/network`)).policy;
			rules.set(generation, host);
			if (i === 0) await some.decided({ verdict: 'allow', host });
		}
		await cloche.get('POST', `/sandboxes/${some.id}/execs/${loop.id}/kill`);
		await until(async () => (await cloche.get('GET', `/sandboxes/${some.id}/execs/${loop.id}`)).state === 'ended', 'the loop ends');
		const allowed = (await some.decisions()).filter((one) => one.verdict === 'allow');
		assert.ok(new Set(allowed.map((one) => one.host)).size === 2, 'both were reached in turn');
		for (const one of allowed) assert.equal(one.host, rules.get(one.generation), JSON.stringify(one));
		assert.deepEqual(net.left().filter((row) => !/^tcp (93\.184\.216|2606:2800:220:1:):?\.?3[45] 22$/.test(row)), []);
	});

	test('a flood of one sandbox is bounded, and its neighbour does not feel it', async () => {
		const { cloche } = held;
		const [noisy, quiet] = [await box(held, 'none', { allow: ['example.test'] }), await box(held, 'none', { allow: ['example.test'] })];
		const flood = await cloche.get('POST', `/sandboxes/${noisy.id}/execs`, {
			background: true,
			shell: `node -e '
				const net = require("net"); const dgram = require("dgram"); let open = 0, n = 0;
				const udp = dgram.createSocket("udp4");
				setInterval(() => { for (let i = 0; i < 50; i++) udp.send("x", 1 + (n++ % 60000), "93.184.216.35"); }, 5);
				const dial = () => { if (open < 1500) { open++; const s = net.connect(22, "93.184.216.34"); s.on("error", () => {}).on("close", () => { open--; setTimeout(dial, 5); }); } };
				require("dns").lookup("example.test", () => { for (let i = 0; i < 1500; i++) setTimeout(dial, i); });
				setTimeout(() => process.exit(0), 8000);'`,
		});
		await noisy.decided({ verdict: 'deny', rule: 'the sandbox has too many connections' });
		for (let i = 0; i < 5; i++) assert.equal((await quiet.sh(`${CURL} https://example.test/`)).code, 0);
		await until(async () => (await cloche.get('GET', `/sandboxes/${noisy.id}/execs/${flood.id}`)).state === 'ended', 'the flood ends');
		const events = await noisy.decisions();
		assert.ok(events.length < 700, `${events.length} events of a flood`);
		assert.equal((await noisy.sh(`${CURL} https://example.test/`)).code, 0);
	});

	test('no sandbox reaches another', async () => {
		const { cloche } = held;
		const [one, two] = [await box(held, 'full'), await box(held, 'full')];
		await cloche.get('POST', `/sandboxes/${one.id}/execs`, { background: true, shell: `node -e 'require("net").createServer((s) => s.end("mine")).listen(8081, "0.0.0.0"); setTimeout(() => {}, 30000)'` });
		await until(async () => (await one.sh(`node -e 'require("net").connect(8081, "192.0.0.2").on("data", (d) => console.log(String(d))).on("error", () => {})'`)).stdout === 'mine\n', 'it listens');
		for (const host of ['192.0.0.2', '127.0.0.1', '93.184.1.2', '[fd00:c10c:e::2]']) assert.notEqual((await two.sh(`${CURL} -m 5 -g http://${host}:8081/`)).code, 0, host);
	});

	test('bytes are metered and capped', async () => {
		const { cloche } = held;
		await cloche.get('POST', '/environments', { name: 'thin', level: 'custom', allowedDomains: ['example.test'], egressBytes: 5000000 });
		const some = await box(held, 'thin');
		const send = (bytes) => `head -c ${bytes} /dev/zero | ${CURL} -T - https://example.test/`;
		assert.match((await some.sh(send(1000000))).stdout, /"bytes":1000000/);
		await some.sh(`node -e '
			const fs = require("fs"), https = require("https"); let left = 200;
			const done = () => { if (--left === 0) process.exit(0); };
			for (let i = 0; i < 200; i++) { const r = https.request({ host: "example.test", method: "PUT", ca: fs.readFileSync("/tmp/ca.pem"), agent: false }, (a) => a.resume().on("end", done)); r.on("error", done); r.end(Buffer.alloc(200000)); }'`, { timeoutMs: 60000 });
		const { meters } = await cloche.get('GET', `/sandboxes/${some.id}`);
		const info = await cloche.get('GET', `/sandboxes/${some.id}/network`);
		const row = info.hosts.find((one) => one.host === 'example.test' && one.port === 443);
		assert.ok(row.sent > 4900000 && row.sent <= 5100000, JSON.stringify({ row, meters }));
		await some.decided({ verdict: 'deny', rule: 'the sandbox has sent all the bytes it may' });
		await cloche.get('POST', `/sandboxes/${some.id}/stop`);
		const stopped = await until(async () => {
			const now = await cloche.get('GET', `/sandboxes/${some.id}`);
			return now.state === 'stopped' && now;
		}, 'it stops');
		assert.ok(stopped.meters.netSentBytes >= row.sent && stopped.meters.netDenied > 0, JSON.stringify(stopped.meters));
		await cloche.get('POST', '/environments', { name: 'slow', level: 'custom', allowedDomains: ['example.test'], egressRate: 1000000 });
		const slow = await box(held, 'slow');
		const started = Date.now();
		assert.match((await slow.sh(send(2000000))).stdout, /"bytes":2000000/);
		assert.ok(Date.now() - started > 1500, `${Date.now() - started} ms for two seconds’ worth`);
	});

	test('bytes arrive whole, both ways, many at once', async () => {
		const some = await box(held, 'none', { allow: ['example.test'] });
		const { stdout } = await some.sh(`${CURL} -o /dev/null -w '%{size_download}' 'https://example.test/big?bytes=200000000'`, { timeoutMs: 60000 });
		assert.equal(stdout, '200000000');
		const many = await some.sh(`node -e '
			const http = require("http"); let good = 0, left = 300;
			const done = () => { if (--left === 0) { console.log(good); process.exit(0); } };
			for (let i = 0; i < 300; i++) http.get({ host: "example.test", path: "/big?bytes=100000", agent: false }, (r) => { let n = 0; r.on("data", (d) => (n += d.length)).on("end", () => { if (n === 100000) good++; done(); }).on("error", done); }).on("error", done);'`, { timeoutMs: 60000 });
		assert.equal(many.stdout, '300\n', many.stderr);
	});

	test('recording writes a policy under which the same run has no denial', async () => {
		const { cloche } = held;
		const record = await box(held, 'none', { networkMode: 'record' });
		const job = `${CURL} https://learn.test/ && ${CURL} http://example.test/`;
		assert.equal((await record.sh(job)).code, 0);
		assert.notEqual((await record.sh(`${CURL} http://169.254.169.254/`)).code, 0, 'never metadata, not even then');
		await record.decided({ verdict: 'allow', host: 'learn.test' });
		const learned = await cloche.get('POST', `/sandboxes/${record.id}/network/learn`, { name: 'learned' });
		assert.ok(learned);
		const again = await box(held, 'learned');
		assert.equal((await again.sh(job)).code, 0);
		assert.notEqual((await again.sh(`${CURL} https://other.test/`)).code, 0);
		assert.deepEqual((await again.decisions()).filter((one) => one.verdict === 'deny' && one.host !== 'other.test'), []);
	});

	test('asking holds the connection until a person answers', async () => {
		const { cloche, net } = held;
		const ask = await box(held, 'none', { networkMode: 'ask' });
		const start = (host) => cloche.get('POST', `/sandboxes/${ask.id}/execs`, { shell: `${CURL} -m 60 https://${host}/`, background: true });
		const end = (exec) => until(async () => {
			const now = await cloche.get('GET', `/sandboxes/${ask.id}/execs/${exec.id}`);
			return now.state === 'ended' && now;
		}, 'the command ends', 10000);
		const pending = () => until(async () => (await cloche.get('GET', '/approvals')).items.find((one) => one.state === 'waiting'), 'a question');
		const first = await start('example.test');
		const question = await pending();
		assert.equal(question.host, 'example.test');
		assert.deepEqual(net.asked(), [], 'nothing left before the answer');
		assert.deepEqual(net.left(), []);
		await cloche.ok(['approval', 'allow', question.id]);
		assert.equal((await end(first)).exitCode, 0);
		const second = await start('other.test');
		await cloche.ok(['approval', 'deny', (await pending()).id]);
		assert.notEqual((await end(second)).exitCode, 0);
		assert.ok(!net.left().includes('tcp 93.184.216.35 443'));
	});

	test('egress goes on while the daemon is away, and its decisions are told afterwards', async () => {
		const { cloche } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const loop = await cloche.get('POST', `/sandboxes/${some.id}/execs`, {
			shell: `for i in $(seq 60); do ${CURL} -o /dev/null https://example.test/ && echo good || echo bad; ${CURL} https://while-away.test/ 2>/dev/null; sleep 0.1; done`,
			background: true,
		});
		await some.decided({ verdict: 'allow', host: 'example.test' });
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'the daemon is back');
		await until(async () => (await cloche.get('GET', `/sandboxes/${some.id}/execs/${loop.id}`)).state === 'ended', 'the loop ends');
		const text = (await cloche.api('GET', `/sandboxes/${some.id}/execs/${loop.id}/output`)).bytes.toString();
		assert.ok(!text.includes('bad'), text);
		await some.decided({ verdict: 'deny', host: 'while-away.test' });
	});

	test('a dialer that dies is replaced; meanwhile nothing leaves', async () => {
		const { cloche } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		assert.equal((await some.sh(`${CURL} https://example.test/`)).code, 0);
		const [dialer] = cloche.processes('cloche:dialer');
		process.kill(dialer.pid, 'SIGKILL');
		assert.equal((await some.sh(`${CURL} -m 20 https://example.test/`)).code, 0, 'what is asked for waits for the next one');
		cloche.note();
	});
});

describe('network policy after a broker died', { skip: needsRoot }, () => {
	const held = withInternet();

	test('connections go on, and so do new ones under the next broker', async () => {
		const { cloche } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const loop = await cloche.get('POST', `/sandboxes/${some.id}/execs`, {
			shell: `for i in $(seq 80); do ${CURL} -o /dev/null https://example.test/ && echo good || echo bad; sleep 0.1; done`,
			background: true,
		});
		await some.decided({ verdict: 'allow', host: 'example.test' });
		cloche.note();
		cloche.child.kill('SIGKILL');
		await cloche.ended;
		await cloche.serve();
		await until(async () => (await cloche.get('GET', `/sandboxes/${some.id}/execs/${loop.id}`)).state === 'ended', 'the loop ends', 40000);
		const text = (await cloche.api('GET', `/sandboxes/${some.id}/execs/${loop.id}/output`)).bytes.toString();
		assert.ok(!text.includes('bad') && text.includes('good'), text);
		assert.notEqual((await some.sh(`${CURL} https://other.test/`)).code, 0);
		await some.set({ network: 'none', allow: ['other.test'] });
		assert.equal((await some.sh(`${CURL} https://other.test/`)).code, 0);
	});
});

describe('network policy and a store that was put back', { skip: needsRoot }, () => {
	const held = withInternet();

	test('what the store says counts, also for a keeper that is ahead of it', async () => {
		const { cloche } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		const files = fs.readdirSync(`${cloche.state}/store`).filter((name) => /\.db(-wal|-shm)?$/.test(name)).map((name) => `store/${name}`);
		assert.ok(files.length > 0);
		const copy = files.map((name) => [name, fs.readFileSync(`${cloche.state}/${name}`)]);
		await some.set({ network: 'none', allow: ['other.test'] });
		await some.set({ network: 'none', allow: ['other.test', 'learn.test'] });
		assert.notEqual((await some.sh(`${CURL} https://example.test/`)).code, 0);
		cloche.note();
		const daemon = cloche.daemonProcess();
		cloche.child.kill('SIGSTOP'); // starts no other
		process.kill(daemon.pid, 'SIGKILL');
		cloche.child.kill('SIGKILL');
		await cloche.ended;
		await until(() => !isAlive(daemon), 'the daemon is gone');
		for (const [name, bytes] of copy) fs.writeFileSync(`${cloche.state}/${name}`, bytes);
		await cloche.serve();
		await until(async () => (await cloche.get('GET', `/sandboxes/${some.id}`)).networkPolicy.generation > 3, 'a number above the keeper’s');
		assert.equal((await some.sh(`${CURL} https://example.test/`)).code, 0);
		assert.notEqual((await some.sh(`${CURL} https://other.test/`)).code, 0);
		await some.set({ network: 'none', allow: ['other.test'] });
		assert.equal((await some.sh(`${CURL} https://other.test/`)).code, 0);
	});
});

describe('network policy from a pool', { skip: needsRoot }, () => {
	const held = withInternet({ pool: 2 });

	test('a parked sandbox takes any policy', async () => {
		for (const [network, code] of [['none', 6], ['full', 0]]) {
			const one = await box(held, network);
			assert.equal((await one.sh(`${CURL} https://example.test/`)).code, code, network);
		}
	});
});

describe('network policy as an ordinary user', { skip: needsRoot }, () => {
	const held = withInternet({ user: ordinaryUser });

	test('the same', async () => {
		const { net } = held;
		const some = await box(held, 'none', { allow: ['example.test'] });
		assert.equal((await some.sh(`${CURL} https://example.test/`)).code, 0);
		net.clear();
		assert.equal((await some.sh(`${CURL} https://other.test/`)).code, 6);
		assert.notEqual((await some.sh(`${CURL} http://93.184.216.35/`)).code, 0);
		assert.deepEqual(net.left(), []);
		const full = await box(held, 'full');
		assert.equal((await full.sh(`${CURL} https://other.test/`)).code, 0);
		assert.match((await full.sh(`${CURL} -6 http://other.test:8080/; ${udp('93.184.216.34', 'udp4')}; ${udp('2606:2800:220:1::34', 'udp6')}`)).stdout, /2606:2800:220:1::35[^]*a 93\.184\.216\.34 9999\n[^]*a 2606:2800:220:1::34 9999\n/);
		assert.notEqual((await full.sh(`${CURL} http://169.254.169.254/`)).code, 0);
		await full.decided({ verdict: 'deny', address: '169.254.169.254' });
	});
});
