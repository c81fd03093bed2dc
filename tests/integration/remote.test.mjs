// A daemon elsewhere: TLS, names, and the command line over both.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { CHANNEL, Daemon, clocheBin, run } from './lib.mjs';

/** A certificate of its own for localhost and 127.0.0.1. */
async function makeCertificate(folder) {
	const [key, cert] = ['key.pem', 'cert.pem'].map((name) => path.join(folder, name));
	const made = await run('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']);
	assert.equal(made.code, 0, made.stderr);
	fs.chmodSync(key, 0o644); // cloched is another user
	return { key, cert };
}

describe('a daemon elsewhere', () => {
	let daemon, files, secret, where;
	before(async () => {
		daemon = new Daemon({ listen: '127.0.0.1:0', config: null });
		files = await makeCertificate(daemon.folder);
		daemon.configure(`[sandboxes.default]\npool = 0\n[server]\ntls_cert = "${files.cert}"\ntls_key = "${files.key}"\n`);
		await daemon.serve();
		secret = (await daemon.key({ name: 'far' })).secret;
		where = await daemon.tcp();
	});
	after(async () => {
		await daemon?.stop();
	});
	// Without a state directory of ours: only the URL leads there.
	const far = (args, { url = `https://localhost:${where.port}`, key = secret, ca = files.cert, ...options } = {}) =>
		run(clocheBin(), args, { env: { PATH: process.env.PATH, HOME: daemon.folder, CLOCHE_URL: url, ...(key ? { CLOCHE_KEY: key } : {}), ...(ca ? { CLOCHE_CA: ca } : {}) }, ...options });

	test('the API speaks TLS, and only that', async () => {
		const caller = await daemon.as(secret, { ca: fs.readFileSync(files.cert), servername: 'localhost' });
		assert.equal((await caller.expect(200, 'GET', '/me')).name, 'operator');
		await assert.rejects((await daemon.as(secret)).api('GET', '/me'));
	});

	test('streams, bodies and WebSockets go through TLS', async () => {
		const caller = await daemon.as(secret, { ca: fs.readFileSync(files.cert), servername: 'localhost' });
		const sandbox = await caller.expect(201, 'POST', '/sandboxes', {});
		const bytes = Buffer.alloc(3 << 20, 'abc');
		await caller.expect(204, 'PUT', `/sandboxes/${sandbox.id}/files?path=/workspace/big`, bytes);
		const answer = await caller.api('GET', `/sandboxes/${sandbox.id}/files?path=/workspace/big`);
		assert.ok(answer.bytes.equals(bytes));
		await caller.expect(413, 'POST', '/sandboxes', Buffer.alloc(2 << 20, ' '));
		const exec = await caller.expect(201, 'POST', `/sandboxes/${sandbox.id}/execs`, { shell: 'cat', stdin: true, attach: true });
		const socket = await caller.attach(`/sandboxes/${sandbox.id}/execs/${exec.id}/attach`);
		socket.send(0, Buffer.from('through and back\n'));
		const message = await socket.next();
		assert.equal(message[0], CHANNEL.stdout);
		assert.equal(String(message.subarray(1)), 'through and back\n');
		socket.close();
		await caller.expect(204, 'DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('the command line goes there by name, with all it does', async () => {
		const me = await far(['-o', 'json', 'whoami']);
		assert.equal(me.code, 0, me.stderr);
		assert.equal(JSON.parse(me.stdout).credential.slice(0, 3), 'ky_');
		const ran = await far(['run', '--', 'sh', '-c', 'cat; exit 3'], { input: 'hello from far away\n' });
		assert.equal(ran.stdout, 'hello from far away\n');
		assert.equal(ran.code, 3, ran.stderr);
		const made = await far(['sandbox', 'create', '--name', 'far']);
		assert.equal(made.code, 0, made.stderr);
		const written = await far(['sandbox', 'files', 'write', 'far', '/workspace/x'], { input: 'x'.repeat(1 << 20) });
		assert.equal(written.code, 0, written.stderr);
		const read = await far(['sandbox', 'files', 'cat', 'far', '/workspace/x']);
		assert.equal(read.stdout.length, 1 << 20);
		assert.equal((await far(['sandbox', 'rm', '--force', 'far'])).code, 0);
	});

	test('who is not who the certificate says is refused', async () => {
		const untrusted = await far(['whoami'], { ca: null });
		assert.notEqual(untrusted.code, 0);
		assert.match(untrusted.stderr, /not trusted/);
		const wrong = await far(['whoami'], { url: `https://127.0.0.2:${where.port}` });
		assert.notEqual(wrong.code, 0);
	});

	test('without a key, or with a wrong one, there is nothing', async () => {
		assert.equal((await far(['sandbox', 'list'], { key: null })).code, 77);
		assert.equal((await far(['sandbox', 'list'], { key: 'sk_live_x' })).code, 77);
	});

	test('what cannot work says so', async () => {
		const mounted = await far(['run', '-v', '/etc:/workspace/etc', '--', 'true']);
		assert.match(mounted.stderr, /--volume grants folders of the daemon's own machine/);
		for (const url of ['ftp://x', 'http://', 'http://a b', 'https://host:99999', 'http://host/path', 'localhost:7070']) {
			const refused = await far(['whoami'], { url });
			assert.equal(refused.code, 64, url);
			assert.match(refused.stderr, /is not http:\/\/HOST/);
		}
		const nobody = await far(['run', '--', 'true'], { url: 'http://127.0.0.1:1' });
		assert.equal(nobody.code, 125);
		assert.match(nobody.stderr, /nobody listens/);
	});

	test('a certificate that cannot be read ends the start with its name', async () => {
		await assert.rejects(Daemon.start({ listen: '127.0.0.1:0', config: '[server]\ntls_cert = "/nonexistent/cert.pem"\ntls_key = "/nonexistent/key.pem"\n' }), /nonexistent\/cert\.pem/);
		await assert.rejects(Daemon.start({ listen: '127.0.0.1:0', config: `[server]\ntls_cert = "${files.key}"\ntls_key = "${files.cert}"\n` }), /no pair/);
	});
});
