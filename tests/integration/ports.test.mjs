// A port inside a sandbox, behind the API: methods, streams, WebSocket, and what must not pass.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { call, until } from './lib/http.mjs';

// Runs inside, with what every image has.
const SERVER = `
import base64, hashlib, http.server, json, socketserver, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def all(self):
        if self.headers.get('Upgrade') == 'websocket':
            key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
            self.send_response(101)
            self.send_header('Upgrade', 'websocket')
            self.send_header('Connection', 'Upgrade')
            self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
            self.end_headers()
            self.wfile.write((self.headers.get('Sec-WebSocket-Protocol') or 'hello').encode())
            while True:
                data = self.connection.recv(65536)
                if not data: break
                self.wfile.write(data.upper())
            self.close_connection = True
            return
        n = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(n)
        if self.path.startswith('/slow'):
            self.send_response(200)
            self.send_header('Transfer-Encoding', 'chunked')
            self.end_headers()
            for i in range(3):
                self.wfile.write(b'5\\r\\ntick' + str(i).encode() + b'\\r\\n')
                self.wfile.flush()
                time.sleep(1)
            self.wfile.write(b'0\\r\\n\\r\\n')
            return
        if self.path.startswith('/big'):
            self.send_response(200)
            self.send_header('Content-Length', str(8 * 1024 * 1024))
            self.end_headers()
            for i in range(128): self.wfile.write(b'x' * 65536)
            return
        answer = json.dumps({'method': self.command, 'path': self.path, 'headers': dict(self.headers), 'bytes': n}).encode()
        self.send_response(201)
        self.send_header('Set-Cookie', 'a=b; Path=/')
        self.send_header('Access-Control-Allow-Origin', '*')
        self.send_header('X-Mine', 'yes')
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        if self.command != 'HEAD': self.wfile.write(answer)
    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = do_REPORT = all
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
S(('127.0.0.1', 8080), H).serve_forever()
`;

describe('ports', () => {
	let daemon, box;

	before(async () => {
		daemon = await Daemon.start();
		box = (await daemon.create()).id;
		await daemon.get('PUT', `/sandboxes/${box}/files?path=/tmp/server.py`, Buffer.from(SERVER), { headers: { 'content-type': 'application/octet-stream' } });
		await daemon.get('POST', `/sandboxes/${box}/execs`, { argv: ['python3', '/tmp/server.py'], background: true });
		await until(async () => (await daemon.api('GET', `/sandboxes/${box}/ports/8080/`)).status === 201, 'the server listens');
	});

	after(() => daemon.discard());

	const at = (path) => `/sandboxes/${box}/ports/8080${path}`;

	test('every method, path and query goes inside; credentials and cookies do not cross', async () => {
		for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'REPORT']) {
			const answer = await call(daemon.socket, method, `/api/v1${at('/a%20b/c?x=1&limit=no')}`, method === 'GET' ? undefined : Buffer.from('12345'), {
				headers: { cookie: 'session=1', 'x-more': 'yes', 'content-type': 'text/plain' },
			});
			assert.equal(answer.status, 201, `${method}: ${answer.bytes}`);
			const said = JSON.parse(answer.bytes);
			assert.equal(said.method, method);
			assert.equal(said.path, '/a%20b/c?x=1&limit=no');
			assert.equal(said.headers.Host, 'localhost:8080');
			assert.equal(said.headers['x-more'] ?? said.headers['X-More'], 'yes');
			assert.equal(JSON.stringify(said).includes('session=1'), false);
			assert.equal(answer.headers['x-mine'], 'yes');
			assert.equal(answer.headers['set-cookie'], undefined);
			assert.equal(answer.headers['access-control-allow-origin'], undefined);
			assert.equal(answer.headers['x-content-type-options'], 'nosniff');
		}
		assert.equal((await call(daemon.socket, 'HEAD', `/api/v1${at('/x')}`)).status, 201);
		assert.equal(JSON.parse((await daemon.api('GET', at(''))).bytes).path, '/');
	});

	test('bodies are whole and streams are not held back', async () => {
		const big = await daemon.api('GET', at('/big'));
		assert.equal(big.bytes.length, 8 * 1024 * 1024);
		const sent = await call(daemon.socket, 'POST', `/api/v1${at('/x')}`, Buffer.alloc(3_000_000, 'y'), { headers: { 'content-type': 'text/plain' } });
		assert.equal(JSON.parse(sent.bytes).bytes, 3_000_000);
		const response = await daemon.stream('GET', at('/slow'));
		const times = [];
		for await (const part of response) times.push([Date.now(), String(part)]);
		assert.equal(times.map(([, text]) => text).join(''), 'tick0tick1tick2');
		assert.ok(times.at(-1)[0] - times[0][0] > 1000, JSON.stringify(times));
	});

	test('WebSocket passes both ways', async () => {
		const socket = net.connect(daemon.socket);
		await once(socket, 'connect');
		let text = '';
		socket.on('data', (part) => (text += part.toString('latin1')));
		socket.write(
			`GET /api/v1${at('/ws')} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
		);
		await until(() => /\r\n\r\nhello/.test(text), 'it is open');
		assert.match(text, /^HTTP\/1\.1 101/);
		assert.match(text, /sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/i);
		socket.write('abc');
		await until(() => /helloABC$/.test(text), 'an echo');
		socket.write('x'.repeat(300_000));
		await until(() => (text.match(/X/g) ?? []).length >= 300_000, 'much of it');
		socket.end();
		await once(socket, 'close');
		const refused = await call(daemon.socket, 'GET', `/api/v1/sandboxes/${box}/ports/8080/none`, undefined, { headers: { upgrade: 'nothing', connection: 'Upgrade' } }).catch((error) => error);
		assert.equal(refused.status, 502, String(refused.bytes ?? refused));
	});

	test('the key of a page does not go in with its WebSocket', async () => {
		const { secret } = await daemon.get('POST', '/keys', { name: 'page' });
		for (const [offer, rest] of [[`chat, cloche.bearer.${secret},other`, 'chat, other'], [`cloche.bearer.${secret}`, 'hello']]) {
			const socket = net.connect(daemon.socket);
			let text = '';
			socket.on('data', (part) => (text += part.toString('latin1')));
			socket.write(
				`GET /api/v1${at('/ws')} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ${offer}\r\n\r\n`,
			);
			await until(() => text.endsWith(`\r\n\r\n${rest}`), `only ${rest} arrives`);
			assert.ok(!text.includes(secret));
			socket.destroy();
		}
	});

	test('what is not there, and what may not be asked', async () => {
		assert.equal((await daemon.api('GET', `/sandboxes/${box}/ports/9/`)).status, 503);
		assert.equal((await daemon.api('GET', `/sandboxes/${box}/ports/0/`)).status, 400);
		assert.equal((await daemon.api('GET', `/sandboxes/${box}/ports/70000/`)).status, 400);
		assert.equal((await daemon.api('GET', `/sandboxes/nobody/ports/8080/`)).status, 404);
		const other = (await daemon.create()).id;
		assert.equal((await daemon.api('GET', `/sandboxes/${other}/ports/8080/`)).status, 503, 'another sandbox has its own ports');
		await daemon.get('POST', `/sandboxes/${other}/stop`, {});
		assert.equal((await daemon.api('GET', `/sandboxes/${other}/ports/8080/`)).status, 409);
	});

	test('a key without the right gets nowhere', async () => {
		const key = await daemon.key({ name: 'reader', scopes: ['sandboxes:read'] });
		const answer = await daemon.api('GET', at('/x'), undefined, { headers: { authorization: `Bearer ${key.secret}` } });
		assert.equal(answer.status, 403);
		const writer = await daemon.key({ name: 'writer', scopes: ['sandboxes:write'] });
		const inside = JSON.parse((await daemon.api('GET', at('/x'), undefined, { headers: { authorization: `Bearer ${writer.secret}` } })).bytes);
		assert.equal(JSON.stringify(inside).includes(writer.secret), false, 'the key stays outside');
	});

	test('the command line tells where it is', async () => {
		const facts = await daemon.json(['sandbox', 'port', box, '8080']);
		assert.equal(facts.path, `/api/v1/sandboxes/${box}/ports/8080/`);
		assert.equal(facts.socket, daemon.socket);
		const response = await new Promise((resolve) => http.get({ socketPath: facts.socket, path: facts.path }, resolve));
		assert.equal(response.statusCode, 201);
		response.resume();
	});
});
