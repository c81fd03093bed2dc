// A WebSocket client over a Unix socket or TCP, as small as the tests need (RFC 6455, client side).
import crypto from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { once } from 'node:events';

import { connectTo } from './http.mjs';

export const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, resize: 3, signal: 4, exit: 5, gap: 6 };

function frame(opcode, payload) {
	const mask = crypto.randomBytes(4);
	const head = [0x80 | opcode];
	if (payload.length < 126) head.push(0x80 | payload.length);
	else if (payload.length < 65536) head.push(0x80 | 126, payload.length >> 8, payload.length & 255);
	else {
		const length = Buffer.alloc(8);
		length.writeBigUInt64BE(BigInt(payload.length));
		head.push(0x80 | 127, ...length);
	}
	const masked = Buffer.from(payload);
	for (let i = 0; i < masked.length; i++) masked[i] ^= mask[i & 3];
	return Buffer.concat([Buffer.from(head), mask, masked]);
}

export class WebSocketClient {
	constructor(socket, response, head) {
		this.socket = socket;
		this.response = response;
		this.pending = head;
		this.messages = [];
		this.waiting = [];
		this.fragments = [];
		this.closed = false;
		this.closeCode = undefined;
		socket.on('data', (bytes) => this.feed(bytes));
		socket.on('error', () => {});
		socket.on('close', () => this.end());
		if (head.length) this.feed(Buffer.alloc(0));
	}

	/** Resolves to a client, or rejects with {status, body} when the server refuses the upgrade. */
	static async open(where, path, { headers = {}, protocol = 'cloche.v1' } = {}) {
		const key = crypto.randomBytes(16).toString('base64');
		const request = (where.ca ? https : http).request({
			...connectTo(where),
			agent: undefined,
			path,
			headers: {
				connection: 'Upgrade',
				upgrade: 'websocket',
				'sec-websocket-key': key,
				'sec-websocket-version': '13',
				...(protocol ? { 'sec-websocket-protocol': protocol } : {}),
				...headers,
			},
		});
		request.end();
		const refused = once(request, 'response').then(async ([response]) => {
			const parts = [];
			for await (const part of response) parts.push(part);
			const error = new Error(`upgrade refused: ${response.statusCode}`);
			error.status = response.statusCode;
			error.body = Buffer.concat(parts).toString();
			throw error;
		});
		refused.catch(() => {});
		const [response, socket, head] = await Promise.race([once(request, 'upgrade'), refused]);
		const wanted = crypto
			.createHash('sha1')
			.update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11')
			.digest('base64');
		if (response.headers['sec-websocket-accept'] !== wanted) throw new Error('bad accept key');
		return new WebSocketClient(socket, response, head);
	}

	feed(bytes) {
		this.pending = Buffer.concat([this.pending, bytes]);
		for (;;) {
			if (this.pending.length < 2) return;
			const final = this.pending[0] & 0x80;
			const opcode = this.pending[0] & 15;
			let length = this.pending[1] & 127;
			let at = 2;
			if (length === 126) {
				if (this.pending.length < 4) return;
				length = this.pending.readUInt16BE(2);
				at = 4;
			} else if (length === 127) {
				if (this.pending.length < 10) return;
				length = Number(this.pending.readBigUInt64BE(2));
				at = 10;
			}
			if (this.pending.length < at + length) return;
			const payload = this.pending.subarray(at, at + length);
			this.pending = this.pending.subarray(at + length);
			this.take(opcode, final, payload);
		}
	}

	take(opcode, final, payload) {
		if (opcode === 8) {
			this.closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
			if (!this.socket.destroyed) this.socket.end(frame(8, payload));
			return;
		}
		if (opcode === 9) return void this.socket.write(frame(10, payload));
		if (opcode === 10) return;
		this.fragments.push(Buffer.from(payload));
		if (!final) return;
		const message = Buffer.concat(this.fragments);
		this.fragments = [];
		const waiter = this.waiting.shift();
		if (waiter) waiter(message);
		else this.messages.push(message);
	}

	end() {
		this.closed = true;
		for (const waiter of this.waiting.splice(0)) waiter(null);
	}

	/** The next message, or null when the connection is closed. */
	async next(ms = 15000) {
		if (this.messages.length) return this.messages.shift();
		if (this.closed) return null;
		let timer;
		const late = new Promise((_, reject) => {
			timer = setTimeout(() => reject(new Error(`no message in ${ms} ms`)), ms);
		});
		try {
			return await Promise.race([new Promise((resolve) => this.waiting.push(resolve)), late]);
		} finally {
			clearTimeout(timer);
		}
	}

	send(channel, payload = Buffer.alloc(0)) {
		this.socket.write(frame(2, Buffer.concat([Buffer.from([channel]), Buffer.from(payload)])));
	}

	sendRaw(opcode, payload) {
		this.socket.write(frame(opcode, Buffer.from(payload)));
	}

	resize(rows, cols) {
		const size = Buffer.alloc(4);
		size.writeUInt16LE(rows, 0);
		size.writeUInt16LE(cols, 2);
		this.send(CHANNEL.resize, size);
	}

	/** Reads until the output contains `text` (stdout and stderr together); returns all of it. */
	async expect(text, ms = 15000) {
		let seen = '';
		const end = Date.now() + ms;
		while (!seen.includes(text)) {
			const message = await this.next(Math.max(1, end - Date.now())).catch((error) => {
				throw new Error(`${error.message}; wanted ${JSON.stringify(text)}, had ${JSON.stringify(seen)}`);
			});
			if (message === null) throw new Error(`closed; wanted ${JSON.stringify(text)}, had ${JSON.stringify(seen)}`);
			if (message[0] === CHANNEL.stdout || message[0] === CHANNEL.stderr) seen += message.subarray(1).toString();
			else if (message[0] === CHANNEL.exit && !seen.includes(text))
				throw new Error(`exited ${message.subarray(1)}; wanted ${JSON.stringify(text)}, had ${JSON.stringify(seen)}`);
		}
		return seen;
	}

	/** Reads to the exit message: {stdout, stderr, exit, gaps}. */
	async finish(ms = 30000) {
		const result = { stdout: [], stderr: [], exit: null, gaps: [] };
		while (result.exit === null) {
			const message = await this.next(ms);
			if (message === null) break;
			const payload = message.subarray(1);
			if (message[0] === CHANNEL.stdout) result.stdout.push(payload);
			else if (message[0] === CHANNEL.stderr) result.stderr.push(payload);
			else if (message[0] === CHANNEL.gap) result.gaps.push(payload.readBigUInt64LE(0));
			else if (message[0] === CHANNEL.exit) result.exit = JSON.parse(payload);
		}
		result.stdout = Buffer.concat(result.stdout);
		result.stderr = Buffer.concat(result.stderr);
		return result;
	}

	close() {
		this.socket.destroy();
	}
}
