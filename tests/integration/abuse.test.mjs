// P08: HTTP abuse on the local socket. Memory stays bounded, answers are 4xx, others are served.
import assert from 'node:assert/strict';
import net from 'node:net';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { openFiles, raw, residentBytes, sleep, until, withDaemon } from './lib.mjs';

const post = (body, headers = '') => `POST /api/v1/sandboxes HTTP/1.1\r\nHost: cloche\r\nContent-Type: application/json\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;

describe('HTTP abuse', () => {
	const cloche = withDaemon({ before, after });
	let baseline;
	before(async () => {
		await cloche.api('GET', '/health');
		baseline = residentBytes(cloche.daemonProcess().pid);
	});
	const served = async () => assert.equal((await cloche.api('GET', '/health')).status, 200);
	const growth = () => residentBytes(cloche.daemonProcess().pid) - baseline;

	const bodies = {
		'JSON of depth 100000': '['.repeat(100000),
		'JSON object of depth 100000': '{"a":'.repeat(100000),
		'duplicate keys': '{"name":"a","name":"b"}',
		'numbers beyond 2^53': '{"ttl":99999999999999999999999999}',
		'a huge exponent': '{"ttl":1e400}',
		'invalid UTF-8': Buffer.from('{"name":"\xff\xfe"}', 'latin1'),
		'a lone surrogate': '{"name":"\\ud800"}',
		'an escaped NUL': '{"name":"a\\u0000b"}',
		'trailing bytes': '{"name":"ab"} x',
		'no JSON': 'hello',
		'two megabytes': JSON.stringify({ name: 'x'.repeat(2 << 20) }),
		'a million keys': `{"env":{${Array.from({ length: 50000 }, (_, i) => `"k${i}":"v"`).join(',')}}}`,
	};
	for (const [name, body] of Object.entries(bodies))
		test(`a body of ${name}`, async () => {
			const { text } = await raw(cloche.socket, Buffer.concat([Buffer.from(post(body).slice(0, post(body).indexOf('\r\n\r\n') + 4), 'latin1'), Buffer.from(body)]));
			assert.match(text, /^HTTP\/1\.1 4\d\d /, text.slice(0, 200));
			await served();
			assert.ok(growth() < 24 << 20, `${growth() >> 20} MiB`);
		});

	const requests = {
		'a huge header': `GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Big: ${'a'.repeat(1 << 20)}\r\n\r\n`,
		'ten thousand headers': `GET /api/v1/health HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(10000)}\r\n`,
		'a huge target': `GET /api/v1/${'a'.repeat(1 << 20)} HTTP/1.1\r\nHost: x\r\n\r\n`,
		'both lengths': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n',
		'two different lengths': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}',
		'a negative length': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
		'a length beyond all': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n',
		'a chunk beyond all': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n',
		'a chunk of no length': 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
		'a header without a name': 'GET /api/v1/health HTTP/1.1\r\nHost: x\r\nno name\r\n\r\n',
		'HTTP of tomorrow': 'GET /api/v1/health HTTP/3.7\r\nHost: x\r\n\r\n',
		'no HTTP': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
		'a NUL in the target': 'GET /api/v1/hea\0lth HTTP/1.1\r\nHost: x\r\n\r\n',
		'dots in the target': 'GET /api/v1/../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
		'encoded dots': 'GET /api/v1/sandboxes/%2e%2e%2f%2e%2e%2fetc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
	};
	for (const [name, bytes] of Object.entries(requests))
		test(name, async () => {
			const { text, closed } = await raw(cloche.socket, Buffer.from(bytes, 'latin1'), { ms: 2000 });
			assert.ok(text === '' ? closed : /^HTTP\/1\.[01] [45]\d\d /.test(text), text.slice(0, 200) || 'still open without an answer');
			assert.ok(!/HTTP\/1\.1 200/.test(text), 'nothing was executed');
			await served();
			assert.ok(growth() < 24 << 20, `${growth() >> 20} MiB`);
		});

	const refusals = {
		'a huge header': [431, 'too_large'],
		'a huge target': [414, 'too_large'],
		'a chunk beyond all': [413, 'too_large'],
		'a chunk of no length': [400, 'invalid'],
		'a header without a name': [400, 'invalid'],
		'HTTP of tomorrow': [505, 'unsupported'],
	};
	test('a bad length is refused without a body', async () => {
		for (const [name, status] of [['a negative length', 400], ['a length beyond all', 413]])
			assert.match((await raw(cloche.socket, requests[name], { ms: 20000 })).text, new RegExp(`^HTTP/1\\.1 ${status} [^]*?\r\nContent-Length: 0\r\n\r\n`), name);
	});
	for (const [name, [status, code]] of Object.entries(refusals))
		test(`${name} is refused with a document`, async () => {
			let text, isCut;
			await until(async () => {
				({ text, isCut } = await raw(cloche.socket, Buffer.from(requests[name], 'latin1'), { ms: 20000 }));
				return text || !isCut;
			}, 'the answer is not lost on the way');
			const [head, body] = text.split('\r\n\r\n');
			assert.match(head, /^content-type: application\/problem\+json$/im, text);
			const problem = JSON.parse(body);
			assert.deepEqual([problem.status, problem.code, problem.type], [status, code, `urn:cloche:error:${code}`], text);
			assert.ok(head.startsWith(`HTTP/1.1 ${status} `) || head.startsWith(`HTTP/1.0 ${status} `), head);
		});

	test('a chunked body without end is cut at its limit', async () => {
		const socket = net.connect(cloche.socket);
		await once(socket, 'connect');
		socket.on('error', () => {});
		let answer = '';
		socket.on('data', (part) => (answer += part));
		socket.write('POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n');
		const chunk = Buffer.from(`10000\r\n${' '.repeat(65536)}\r\n`);
		for (let i = 0; i < 1000 && !socket.destroyed && !answer; i++) if (!socket.write(chunk)) await Promise.race([once(socket, 'drain').catch(() => {}), sleep(500)]);
		await until(() => answer || socket.destroyed, 'an answer or the end');
		if (answer) assert.match(answer, /^HTTP\/1\.1 413 /);
		socket.destroy();
		await served();
		assert.ok(growth() < 24 << 20, `${growth() >> 20} MiB`);
	});

	test('slow and idle connections do not stop others', { timeout: 60000 }, async () => {
		const slow = [];
		for (let i = 0; i < 300; i++) {
			const socket = net.connect(cloche.socket);
			socket.on('error', () => {});
			socket.write(i % 2 ? 'GET /api/v1/health HTTP/1.1\r\nHo' : 'POST /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
			slow.push(socket);
		}
		await sleep(500);
		await served();
		assert.ok(slow.every((socket) => !socket.destroyed), 'they were there meanwhile');
		assert.ok(growth() < 48 << 20, `${growth() >> 20} MiB`);
		const open = openFiles(cloche.daemonProcess().pid);
		for (const socket of slow) socket.destroy();
		await until(() => openFiles(cloche.daemonProcess().pid) < open - 200, 'their descriptors are given back');
		await served();
	});

	test('pipelined requests are answered in order', async () => {
		const one = 'GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n';
		const last = 'GET /api/v1/nosuch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
		const { text } = await raw(cloche.socket, one.repeat(20) + last);
		assert.deepEqual([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]), [...Array(20).fill('200'), '404']);
	});

	test('readers of events that go away are noticed', async () => {
		const before = openFiles(cloche.daemonProcess().pid);
		const readers = await Promise.all(Array.from({ length: 50 }, () => cloche.events('/events')));
		for (const reader of readers) reader.close();
		await until(() => openFiles(cloche.daemonProcess().pid) <= before + 5, 'their descriptors are given back', 40000);
	});
});
