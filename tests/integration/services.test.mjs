// Services: calls of sandboxes to places outside, with credentials that never go inside.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFileSync } from 'node:child_process';

import { Daemon } from './lib/daemon.mjs';
import { until } from './lib/http.mjs';

const SECRET = `sk-test-${'Zq7'.repeat(9)}-end`;
const SEALED = `sealed-${'Kx9'.repeat(9)}-end`;

/** An upstream that records what it was sent. */
async function upstream() {
	const calls = [];
	const server = http.createServer((request, response) => {
		const call = { method: request.method, url: request.url, headers: request.headers, body: '' };
		calls.push(call);
		request.on('data', (part) => (call.body += part));
		if (request.url.startsWith('/base/stream')) {
			response.writeHead(200, { 'content-type': 'text/event-stream' });
			let n = 0;
			const timer = setInterval(() => {
				response.write(`data: tick ${++n}\n\n`);
				if (n === 3) {
					clearInterval(timer);
					setTimeout(() => response.end('data: last\n\n'), 3000);
				}
			}, 100);
			response.on('close', () => {
				clearInterval(timer);
				call.closed = true;
			});
			return;
		}
		if (request.url.startsWith('/base/talk')) {
			// answers each piece as it comes would need both ways at once: count them instead
			const at = [];
			request.on('data', () => at.push(Date.now()));
			request.on('end', () => response.end(JSON.stringify({ bytes: call.body.length, spread: at.at(-1) - at[0] })));
			return;
		}
		if (request.url.startsWith('/base/big')) {
			response.writeHead(200);
			const part = Buffer.alloc(65536, 'x');
			for (let i = 0; i < 64; i++) response.write(part);
			response.end();
			return;
		}
		if (request.url.startsWith('/base/hang')) return;
		request.on('end', () => {
			const status = request.url.startsWith('/base/teapot') ? 418 : request.url.startsWith('/base/moved') ? 302 : 200;
			response.writeHead(status, {
				'content-type': 'application/json',
				'set-cookie': 'session=upstream',
				'x-echo': request.headers.authorization ?? 'none',
				'x-other': 'yes',
				...(status === 302 ? { location: `http://127.0.0.1:${server.address().port}/base/there?x=1` } : {}),
			});
			// as a debugging endpoint would: everything it was sent
			response.end(JSON.stringify({ headers: request.headers, body: call.body }));
		});
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return { server, calls, port: server.address().port, close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))) };
}

describe('services', () => {
	let outside, daemon, box, file;

	before(async () => {
		outside = await upstream();
		daemon = new Daemon({ env: { CLOCHE_TEST_SECRET: SECRET } });
		file = path.join(daemon.folder, 'secret');
		fs.writeFileSync(file, `${SECRET}\n`, { mode: 0o644 });
		daemon.configure(`
[sandboxes.default]
pool = 0
[services.env]
upstream = "http://127.0.0.1:${outside.port}/base/"
headers = ["Authorization: Bearer {secret}", "X-Static: yes"]
secret = "env:CLOCHE_TEST_SECRET"
[services.main]
upstream = "http://127.0.0.1:${outside.port}/base"
headers = ["Authorization: Bearer {secret}"]
secret = "file:${file}"
[services.narrow]
upstream = "http://127.0.0.1:${outside.port}/base"
methods = ["GET"]
paths = ["/v1/*", "/files/**", "/big", "/hang"]
response_bytes = "1M"
timeout = "2s"
[services.other]
upstream = "http://127.0.0.1:${outside.port}/base"
secret = "file:${file}"
[services.broken]
upstream = "http://127.0.0.1:1"
secret = "file:/does/not/exist"
[services.refused]
upstream = "http://127.0.0.1:1"
[services.mine]
upstream = "http://127.0.0.1:${outside.port}/base"
visibility = "private"
[services.metered]
upstream = "http://127.0.0.1:${outside.port}/base"
`);
		await daemon.serve();
		box = (await daemon.create()).id;
	});

	after(async () => {
		await daemon.discard();
		await outside.close();
	});

	const curl = async (args) => {
		const result = await daemon.exec(box, `curl -sS -m 30 ${args}`);
		return { ...result, text: result.stdout };
	};
	const last = () => outside.calls.at(-1);

	test('a call reaches the upstream with the secret, and without what the sandbox sent', async () => {
		const { stdout, stderr } = await curl(
			`-i -X POST -H 'Authorization: Bearer mine' -H 'Cookie: a=b' -H 'X-Api-Key: mine' -H 'X-Forwarded-For: 1.2.3.4' -H 'X-Ok: 1' --data hello 'http://main.cloche.internal/v1/chat?q=1'`,
		);
		assert.match(stdout, /^HTTP\/1\.1 200/, stderr);
		assert.equal(last().url, '/base/v1/chat?q=1');
		assert.equal(last().method, 'POST');
		assert.equal(last().body, 'hello');
		assert.equal(last().headers.authorization, `Bearer ${SECRET}`);
		assert.equal(last().headers.host, `127.0.0.1:${outside.port}`);
		for (const name of ['cookie', 'x-api-key', 'x-forwarded-for']) assert.equal(last().headers[name], undefined, name);
		assert.equal(last().headers['x-ok'], '1');
		// what comes back: no cookie, and the secret the upstream repeated is gone
		assert.doesNotMatch(stdout, /set-cookie/i);
		assert.match(stdout, /x-other: yes/i);
		assert.doesNotMatch(stdout, new RegExp(SECRET));
		assert.match(stdout, /Bearer \*{20}/);
	});

	test('a secret of the environment is read by the daemon', async () => {
		await curl(`http://env.cloche.internal/x`);
		assert.equal(last().headers.authorization, `Bearer ${SECRET}`);
		assert.equal(last().headers['x-static'], 'yes');
	});

	test('a secret is read for each call', async () => {
		fs.writeFileSync(file, 'another-secret-value\n');
		await curl(`http://main.cloche.internal/x`);
		assert.equal(last().headers.authorization, 'Bearer another-secret-value');
		fs.writeFileSync(file, `${SECRET}\n`);
	});

	test('methods, paths, names and tricks', async () => {
		const status = async (args) => (await curl(`-o /dev/null -w '%{http_code}' ${args}`)).stdout;
		const before = outside.calls.length;
		assert.equal(await status('-X POST -d x http://narrow.cloche.internal/v1/a'), '403');
		assert.equal(await status('http://narrow.cloche.internal/admin'), '403');
		assert.equal(await status('--path-as-is http://narrow.cloche.internal/v1/../admin'), '400');
		assert.equal(await status('--path-as-is http://narrow.cloche.internal/v1/%2e%2e'), '400');
		assert.equal(await status('--path-as-is http://narrow.cloche.internal/files/a%2f..%2fadmin'), '400');
		assert.equal(await status('http://nothing.cloche.internal/'), '404');
		assert.equal(await status(`-H 'Host: a.main.cloche.internal' http://main.cloche.internal/`), '404');
		assert.equal(outside.calls.length, before, 'nothing went out');
		assert.equal(await status('http://narrow.cloche.internal/v1/a'), '200');
		assert.equal(await status('http://narrow.cloche.internal/files/a/b'), '200');
		assert.equal(await status('http://main.cloche.internal/teapot'), '418');
	});

	test('limits of size and time, and upstreams that are not there', async () => {
		const big = await curl(`-o /dev/null -w '%{size_download}' http://narrow.cloche.internal/big`);
		assert.notEqual(big.exitCode, 0);
		assert.ok(Number(big.stdout) <= 1048576);
		const whole = await curl(`-o /dev/null -w '%{size_download}' http://main.cloche.internal/big`);
		assert.equal(whole.stdout, String(64 * 65536));
		const late = await curl(`-w ' %{http_code}' http://narrow.cloche.internal/hang`);
		assert.match(late.stdout, /timeout.* 504$/);
		const gone = await curl(`-w ' %{http_code}' http://refused.cloche.internal/`);
		assert.match(gone.stdout, / 502$/);
		assert.doesNotMatch(gone.stdout, /127\.0\.0\.1/);
		const broken = await curl(`-w ' %{http_code}' http://broken.cloche.internal/`);
		assert.match(broken.stdout, / 503$/);
		assert.doesNotMatch(broken.stdout, /does\/not/);
	});

	test('redirects are the sandbox’s to follow, and stay inside', async () => {
		const { stdout } = await curl(`-o /dev/null -D - http://main.cloche.internal/moved`);
		assert.match(stdout, /^HTTP\/1\.1 302/);
		assert.match(stdout, /location: \/there\?x=1\r?\n/i);
	});

	test('an answer streams as it comes', async () => {
		const { id } = await daemon.get('POST', `/sandboxes/${box}/execs`, {
			shell: `curl -sSN -m 30 http://main.cloche.internal/stream | while read l; do [ -z "$l" ] || echo "$(date +%s%N) $l"; done`,
			background: true,
		});
		const output = async () => String((await daemon.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes);
		await until(async () => /last/.test(await output()), 'the stream ends');
		const at = Object.fromEntries((await output()).trim().split('\n').map((line) => [line.replace(/^\d+ data: /, ''), Number(line.split(' ')[0]) / 1e6]));
		assert.ok(at.last - at['tick 3'] > 2000, `came when it was sent: ${JSON.stringify(at)}`);
	});

	test('a body streams as it comes', async () => {
		const { stdout, stderr } = await daemon.exec(
			box,
			`(for i in 1 2 3 4; do head -c 100000 /dev/zero | tr '\\0' x; sleep 0.3; done) | curl -sS -m 30 -T - -X POST -H 'Transfer-Encoding: chunked' http://main.cloche.internal/talk`,
		);
		const said = JSON.parse(stdout || `"${stderr}"`);
		assert.equal(said.bytes, 400000);
		assert.ok(said.spread > 500, `pieces arrived over time: ${stdout}`);
	});

	test('a client that goes ends the call outside', async () => {
		await curl(`-m 1 http://main.cloche.internal/stream`);
		await until(() => outside.calls.some((call) => call.url === '/base/stream' && call.closed), 'it is closed outside');
	});

	test('placeholders become the secret towards their own service, and nowhere else', async () => {
		const own = await curl(`-o /dev/null -w '%{http_code}' -H 'X-Key: cloche_placeholder_other' http://other.cloche.internal/x`);
		assert.equal(own.stdout, '200');
		assert.equal(last().headers['x-key'], SECRET);
		await curl(`-H 'Authorization: Bearer cloche_placeholder_other' http://other.cloche.internal/x`);
		assert.equal(last().headers.authorization, `Bearer ${SECRET}`, 'also where SDKs put it');
		const before = outside.calls.length;
		const foreign = await curl(`-w ' %{http_code}' -H 'X-Key: cloche_placeholder_other' http://main.cloche.internal/x`);
		assert.match(foreign.stdout, / 403$/);
		const inQuery = await curl(`-w ' %{http_code}' 'http://main.cloche.internal/x?key=cloche_placeholder_other'`);
		assert.match(inQuery.stdout, / 403$/);
		assert.equal(outside.calls.length, before);
	});

	test('services of the API: sealed secrets, teams, private addresses', async () => {
		const made = await daemon.get('POST', '/services', {
			name: 'sealed',
			upstream: `http://127.0.0.1:${outside.port}/base`,
			headers: ['X-Token: {secret}'],
			secretValue: SEALED,
		});
		assert.equal(made.secret, 'sealed');
		assert.doesNotMatch(JSON.stringify(made), new RegExp(SEALED));
		const blocked = await curl(`-w ' %{http_code}' http://sealed.cloche.internal/x`);
		assert.match(blocked.stdout, /allow_cidrs.* 403$/);
		assert.equal((await daemon.api('POST', '/services/sealed/test', {})).status, 403);
		assert.equal((await daemon.api('POST', '/services', { name: 'sealed', upstream: 'http://example.org' })).status, 409);
		assert.equal((await daemon.api('POST', '/services', { name: 'main', upstream: 'http://example.org' })).status, 409);
		assert.equal((await daemon.api('DELETE', '/services/main')).status, 409);
		for (const bad of ['http://u:p@example.org', 'ftp://x', 'http://example.org/?x'])
			assert.equal((await daemon.api('POST', '/services', { name: 'bad', upstream: bad })).status, 400, bad);
		assert.equal((await daemon.api('POST', '/services/main/test', { path: '/x' })).body.status, 200);
		assert.equal((await daemon.api('POST', '/services/refused/test', {})).status, 502);
	});

	test('the command line', async () => {
		await daemon.ok(['service', 'add', 'tool', 'http://127.0.0.1:9/x/', '-H', 'X-Key: {secret}', '--secret', '-', '--method', 'get', '--path', '/v1/*', '--timeout', '10s'], { input: `${SEALED}\n` });
		const shown = await daemon.json(['service', 'show', 'tool']);
		assert.deepEqual([shown.upstream, shown.secret, shown.methods, shown.timeoutMs], ['http://127.0.0.1:9/x', 'sealed', ['GET'], 10000]);
		assert.match(await daemon.ok(['service', 'list']), /tool +http:\/\/127/);
		assert.match(await daemon.ok(['service', 'show', 'tool']), /placeholder: +cloche_placeholder_tool/);
		assert.equal((await daemon.cli(['service', 'test', 'tool', '/v1/a'])).code, 77);
		assert.match(await daemon.ok(['service', 'test', 'main', '/x']), /200/);
		await daemon.ok(['service', 'set', 'tool', '--visibility', 'team']);
		await daemon.ok(['service', 'rm', 'tool']);
		assert.equal((await daemon.cli(['service', 'show', 'tool'])).code, 66);
	});

	test('each call is an event, without header, body or query', async () => {
		await curl(`-X POST --data topsecretbody 'http://main.cloche.internal/v1/event?token=inquery'`);
		const { items } = await daemon.get('GET', `/sandboxes/${box}/events?kind=sandbox.service&limit=1000`);
		const call = items.map((each) => each.data).find((each) => each.path === '/v1/event');
		assert.deepEqual({ ...call, ms: 0, received: 0 }, { verdict: 'allow', service: 'main', method: 'POST', path: '/v1/event', status: 200, sent: 13, received: 0, ms: 0 });
		assert.ok(call.received > 0);
		assert.ok(items.some((each) => each.data.verdict === 'deny' && each.data.rule === 'method or path'));
		assert.doesNotMatch(JSON.stringify(items), /topsecretbody|inquery/);
	});

	test('a service has a meter, which outlives the daemon', async () => {
		const meter = async () => (await daemon.get('GET', '/services/metered')).meter;
		const before = await meter(); // of a service that nobody else calls: others may be counted late
		assert.equal(before.calls, 0);
		for (let i = 0; i < 2; i++) await curl(`-X POST --data thirteenbytes 'http://metered.cloche.internal/v1/metered'`);
		await curl(`-H 'X-Key: cloche_placeholder_other' 'http://metered.cloche.internal/v1/metered'`);
		const after = await until(async () => {
			const now = await meter();
			return now.calls === before.calls + 3 && now;
		}, 'three more calls');
		assert.equal(after.denied, before.denied + 1);
		assert.equal(after.sentBytes, before.sentBytes + 26);
		assert.ok(after.receivedBytes > before.receivedBytes && Date.parse(after.lastUsedAt) > Date.now() - 60000);
		process.kill(daemon.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await daemon.api('GET', '/health').catch(() => ({}))).status === 200, 'the daemon is back');
		assert.deepEqual(await meter(), after);
		assert.match(await daemon.ok(['service', 'show', 'metered']), new RegExp(`used: +${after.calls} calls, ${after.denied} denied, `));
		assert.match(await daemon.ok(['service', 'list']), /CALLS/);
	});

	test('the secret is found nowhere', async () => {
		const inside = await daemon.exec(box, `grep -rlaF -e '${SECRET.slice(0, 20)}' /tmp /workspace /home /etc /run /var 2>/dev/null; cat /proc/*/environ 2>/dev/null | grep -aF '${SECRET.slice(0, 20)}'; true`, { user: 'root' });
		// the command line of this very search is not a finding
		assert.equal(inside.stdout, '');
		for (const text of [SECRET, SEALED]) {
			const found = execFileSync('sh', ['-c', `grep -rlaF -e "$0" "$1" || true`, text, daemon.state]).toString();
			assert.equal(found, '', `in the state directory`);
			assert.ok(!daemon.log.includes(text), 'in the log');
			const { bytes } = await daemon.api('GET', '/events?limit=1000');
			assert.ok(!String(bytes).includes(text), 'in the events');
		}
	});
});

test('a service of the API reaches a private address that was opened', async () => {
	const outside = await upstream();
	const daemon = new Daemon({ config: '[sandboxes.default]\npool = 0\n[services]\nallow_cidrs = ["127.0.0.0/8"]\n' });
	try {
		await daemon.serve();
		await daemon.get('POST', '/services', { name: 'sealed', upstream: `http://127.0.0.1:${outside.port}/base`, headers: ['X-Token: {secret}'], secretValue: SEALED });
		const { id } = await daemon.create();
		const { stdout } = await daemon.exec(id, `curl -sS -o /dev/null -w '%{http_code}' http://sealed.cloche.internal/x`);
		assert.equal(stdout, '200');
		assert.equal(outside.calls.at(-1).headers['x-token'], SEALED);
		await daemon.get('PATCH', '/services/sealed', { secretValue: 'another-value' });
		await daemon.exec(id, `curl -sS http://sealed.cloche.internal/x`);
		assert.equal(outside.calls.at(-1).headers['x-token'], 'another-value');
		await daemon.get('DELETE', '/services/sealed');
		assert.match((await daemon.exec(id, `curl -sS -w ' %{http_code}' http://sealed.cloche.internal/x`)).stdout, / 404$/);
	} finally {
		await daemon.discard();
		await outside.close();
	}
});

test('TLS upstreams: proved by the file of CAs, and by the name', async () => {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-tls-'));
	const run = (...args) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
	for (const ca of ['ca', 'other']) {
		run('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', `${ca}.key`);
		run('req', '-x509', '-new', '-key', `${ca}.key`, '-days', '30', '-subj', `/CN=${ca}`, '-out', `${ca}.pem`);
	}
	fs.writeFileSync(path.join(folder, 'ext'), 'subjectAltName=DNS:localhost\n');
	run('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', 'server.key');
	run('req', '-new', '-key', 'server.key', '-subj', '/CN=server', '-out', 'server.csr');
	run('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '30', '-extfile', 'ext', '-out', 'server.pem');
	fs.chmodSync(folder, 0o755);
	const got = [];
	const server = https.createServer({ key: fs.readFileSync(path.join(folder, 'server.key')), cert: fs.readFileSync(path.join(folder, 'server.pem')) }, (request, response) => {
		got.push(request.headers.authorization);
		response.end('over TLS');
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	const { port } = server.address();
	const config = (ca) => `[sandboxes.default]
pool = 0
[services]
ca_file = "${folder}/${ca}.pem"
[services.good]
upstream = "https://localhost:${port}"
headers = ["Authorization: Bearer {secret}"]
secret = "env:CLOCHE_TEST_SECRET"
[services.misnamed]
upstream = "https://127.0.0.1:${port}"
`;
	try {
		for (const [ca, service, wanted] of [['ca', 'good', /^over TLS 200$/], ['ca', 'misnamed', / 502$/], ['other', 'good', / 502$/]]) {
			const daemon = new Daemon({ env: { CLOCHE_TEST_SECRET: SECRET }, config: config(ca) });
			try {
				await daemon.serve();
				const { id } = await daemon.create();
				const { stdout } = await daemon.exec(id, `curl -sS -m 20 -w ' %{http_code}' http://${service}.cloche.internal/`);
				assert.match(stdout, wanted, `${ca} ${service}`);
				assert.ok(!stdout.includes(String(port)), 'where it leads is not told');
			} finally {
				await daemon.discard();
			}
		}
		assert.deepEqual(got, [`Bearer ${SECRET}`], 'the secret went to the one that proved itself');
	} finally {
		await new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
		fs.rmSync(folder, { recursive: true });
	}
});

test('whose a service is, over REST and inside', async () => {
	const outside = await upstream();
	const base = `http://127.0.0.1:${outside.port}/base`;
	const daemon = new Daemon({
		listen: '127.0.0.1:0',
		config: `[sandboxes.default]\npool = 0\n[services]\nallow_cidrs = ["127.0.0.0/8"]\n[services.all]\nupstream = "${base}"\n[services.ops]\nupstream = "${base}"\nvisibility = "private"\n`,
	});
	try {
		await daemon.serve();
		const who = {};
		for (const team of ['red', 'blue']) await daemon.get('POST', '/teams', { name: team });
		for (const [name, team] of Object.entries({ alice: 'red', bob: 'red', dora: 'blue' })) {
			await daemon.get('PUT', `/teams/${team}/members/${name}`, { role: 'member' });
			who[name] = await daemon.as((await daemon.key({ name, team, principal: name })).secret);
		}
		const names = async (caller) => (await caller.expect(200, 'GET', '/services')).items.map((one) => one.name).sort();
		const body = { name: 'mine', upstream: base, headers: ['X-Token: {secret}'], secretValue: SEALED };
		await who.alice.expect(201, 'POST', '/services', body);
		assert.deepEqual(await names(who.alice), ['all', 'mine']);
		assert.deepEqual(await names(who.bob), ['all']);
		assert.deepEqual(await names(who.dora), ['all']);
		for (const [method, rest, ...more] of [['GET', ''], ['PATCH', '', { upstream: 'http://example.org' }], ['DELETE', ''], ['POST', '/test', {}]])
			await who.bob.expect(404, method, `/services/mine${rest}`, ...more);
		await who.bob.expect(404, 'GET', '/services/ops');
		await who.alice.expect(409, 'PATCH', '/services/all', { upstream: 'http://example.org' });
		// Files and variables of the daemon, and names for everybody, are the operator's.
		await who.alice.expect(403, 'POST', '/services', { name: 'steal', upstream: base, secret: 'file:/etc/passwd' });
		await who.alice.expect(403, 'POST', '/services', { name: 'steal', upstream: base, secret: 'env:CLOCHE_HOME' });
		await who.alice.expect(403, 'POST', '/services', { name: 'steal', upstream: base, visibility: 'global' });
		const boxes = {};
		for (const name of Object.keys(who)) boxes[name] = (await who[name].expect(201, 'POST', '/sandboxes', {})).id;
		const status = async (name) => (await daemon.exec(boxes[name], `curl -sS -m 20 -o /dev/null -w '%{http_code}' http://mine.cloche.internal/x`)).stdout;
		assert.deepEqual([await status('alice'), await status('bob'), await status('dora')], ['200', '404', '404']);
		await who.alice.expect(200, 'PATCH', '/services/mine', { visibility: 'team' });
		assert.deepEqual([await status('alice'), await status('bob'), await status('dora')], ['200', '200', '404']);
		assert.deepEqual(await names(who.bob), ['all', 'mine']);
		assert.equal((await who.bob.expect(200, 'POST', '/services/mine/test', { path: '/x' })).status, 200);
		// Who shares it may change it, but not to have the secret sent elsewhere.
		for (const caller of [who.bob, who.alice]) assert.match((await caller.expect(400, 'PATCH', '/services/mine', { upstream: `${base}/else` })).detail, /secretValue is needed again/);
		await who.bob.expect(200, 'PATCH', '/services/mine', { timeout: '10s' });
		assert.equal(await status('alice'), '200');
		assert.equal(outside.calls.at(-1).headers['x-token'], SEALED);
		assert.doesNotMatch(JSON.stringify(await who.bob.expect(200, 'GET', '/services/mine')), new RegExp(SEALED));
		await who.alice.expect(204, 'DELETE', '/services/mine');
		assert.equal(await status('alice'), '404', 'at once');
		for (const id of Object.values(boxes)) await daemon.get('DELETE', `/sandboxes/${id}?force=true`);
	} finally {
		await daemon.discard();
		await outside.close();
	}
});

test('what the page about services says', async () => {
	const outside = await upstream();
	const daemon = new Daemon({ config: '[sandboxes.default]\npool = 0\n[services]\nallow_cidrs = ["127.0.0.0/8"]\n' });
	try {
		await daemon.serve();
		await daemon.ok(['service', 'add', 'search', `http://127.0.0.1:${outside.port}/base/v1`, '-H', 'Authorization: Bearer {secret}', '--secret', '-', '--method', 'POST', '--method', 'GET', '--path', '/messages'], { input: SECRET });
		assert.match(await daemon.ok(['service', 'test', 'search', '/messages']), /200/);
		const said = await daemon.ok(['run', '--', 'curl', '-sS', 'http://search.cloche.internal/messages', '-d', '{"prompt": "hello"}']);
		assert.equal(JSON.parse(said).body, '{"prompt": "hello"}');
		const key = await daemon.ok(['run', '-e', 'KEY=cloche_placeholder_search', '--', 'sh', '-c', 'curl -sS -H "Authorization: Bearer $KEY" http://search.cloche.internal/messages -d x']);
		assert.doesNotMatch(key, new RegExp(SECRET));
		assert.equal(outside.calls.at(-1).headers.authorization, `Bearer ${SECRET}`);
		assert.match(await daemon.ok(['run', '--', 'curl', '-sS', '--unix-socket', '/run/cloche/api.sock', 'http://api/api/v1/health']), /"status"|ok/);
		const { items } = await daemon.get('GET', '/events?limit=1000');
		assert.ok(items.some((one) => one.kind === 'sandbox.service' && one.data.service === 'search'));
	} finally {
		await daemon.discard();
		await outside.close();
	}
});
