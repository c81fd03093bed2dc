// Errors that are known before a request has been sent in full.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { execFileSync } from 'node:child_process';
import { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';

import { Daemon, sleep, withDaemon } from './lib.mjs';

describe('errors during a request', () => {
	const cloche = withDaemon({ before, after });

	test('a file that does not fit is refused while it is being sent', { timeout: 60000 }, async () => {
		const { id } = await cloche.create({ limits: { disk: '32M' } });
		let sent = 0;
		const endless = Readable.from(
			(function* () {
				for (; sent < 1024; sent++) yield Buffer.alloc(1 << 20, 1);
			})(),
		);
		const answer = await cloche.api('PUT', `/sandboxes/${id}/files?path=/workspace/large`, endless);
		endless.destroy();
		assert.equal(answer.status, 507, String(answer.bytes));
		assert.ok(sent < 512, `${sent} MiB were sent`);
		await cloche.get('DELETE', `/sandboxes/${id}?force=1`);
	});

	test('a document without end is refused, not cut off', async () => {
		const endless = Readable.from(
			(function* () {
				for (let i = 0; i < 200; i++) yield Buffer.alloc(1 << 18, 0x20);
			})(),
		);
		const answer = await cloche.api('POST', '/sandboxes', endless, { headers: { 'content-type': 'application/json' } });
		assert.equal(answer.status, 413, String(answer.bytes));
	});

	test('an error reaches a client that is still sending, encrypted or not', { timeout: 60000 }, async () => {
		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-tls-'));
		const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
		execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost', '-keyout', key, '-out', cert], { stdio: 'ignore' });
		fs.chmodSync(folder, 0o755);
		fs.chmodSync(key, 0o644);
		try {
			for (const isTls of [false, true]) {
				const config = `[sandboxes.default]\npool = 0\n${isTls ? `[server]\ntls_cert = "${cert}"\ntls_key = "${key}"\n` : ''}`;
				const daemon = await Daemon.start({ listen: '127.0.0.1:0', config });
				try {
					const { port } = await daemon.tcp();
					const socket = isTls ? tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false }) : net.connect({ port, host: '127.0.0.1' });
					await new Promise((resolve, reject) => socket.on(isTls ? 'secureConnect' : 'connect', resolve).on('error', reject));
					let answer = '';
					let sent = 0;
					socket.on('error', () => {});
					socket.on('data', (part) => (answer += part));
					socket.write('PUT /api/v1/sandboxes/x/files?path=/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1099511627776\r\n\r\n');
					const block = Buffer.alloc(1 << 20);
					while (!/\}$/.test(answer) && sent < 256) {
						if (!socket.write(block)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), sleep(500)]);
						await sleep(0); // a server that reads fast enough would keep us from ever reading
						sent++;
					}
					assert.match(answer, /^HTTP\/1\.1 401 /, `tls ${isTls}: after ${sent} MiB: ${answer}`);
					assert.match(answer, /\r\nConnection: close\r\n/);
					assert.ok(sent < 200, `${sent} MiB`);
					socket.destroy();
				} finally {
					await daemon.stop();
				}
			}
		} finally {
			fs.rmSync(folder, { recursive: true });
		}
	});
});
