// HTTP: whole answers, streams and server-sent events. `where` is the path of a Unix socket, or
// {host, port} for TCP, with {ca} for TLS.
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { once } from 'node:events';

const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity });

/** What node's request takes for a place. */
export function connectTo(where) {
	if (typeof where === 'string') return { socketPath: where, agent };
	return where.ca ? { ...where, agent: false } : { ...where, agent };
}

function open(where, method, path, { headers = {}, body, signal } = {}) {
	const request = (where.ca ? https : http).request({ ...connectTo(where), method, path, headers, signal });
	if (body && typeof body.pipe === 'function') body.pipe(request);
	else request.end(body);
	return request;
}

/** The response as a stream; the caller reads or destroys it. */
export async function stream(where, method, path, options) {
	const request = open(where, method, path, options);
	// A server may answer before it has read everything and then close: the answer counts.
	return new Promise((resolve, reject) => {
		request.on('response', resolve);
		request.on('error', (error) => setTimeout(() => reject(error), 100));
	});
}

export async function readAll(readable) {
	const parts = [];
	for await (const part of readable) parts.push(part);
	return Buffer.concat(parts);
}

/** {status, headers, bytes, body}: body is parsed when the answer is JSON. */
export async function call(where, method, path, body, options = {}) {
	const headers = { ...options.headers };
	let payload = body;
	if (body !== undefined && !Buffer.isBuffer(body) && typeof body !== 'string' && !body?.pipe) {
		payload = JSON.stringify(body);
		headers['content-type'] ??= 'application/json';
	}
	if (payload !== undefined && !payload.pipe) headers['content-length'] ??= Buffer.byteLength(payload);
	const response = await stream(where, method, path, { ...options, headers, body: payload });
	const bytes = await readAll(response);
	const type = response.headers['content-type'] ?? '';
	let parsed = bytes;
	if (/[/+]json/.test(type) && bytes.length) parsed = JSON.parse(bytes);
	return { status: response.statusCode, headers: response.headers, bytes, body: parsed };
}

/** Async iterator of {id, event, data} of a text/event-stream response. */
export async function* events(response) {
	let text = '';
	response.setEncoding('utf8');
	for await (const part of response) {
		text += part;
		for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
			const event = { id: undefined, event: 'message', data: [] };
			for (const line of text.slice(0, end).split('\n')) {
				const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
				if (name === 'data') event.data.push(value);
				else if (name === 'id' || name === 'event') event[name] = value;
			}
			if (!event.data.length && event.id === undefined) continue; // comment: a heartbeat
			yield { ...event, data: event.data.join('\n') };
		}
	}
}

/** Sends raw bytes and returns what came back until the peer closed or `ms` passed. `isCut`: the peer closed while we
 * wrote. Node then reads no more, so an answer that was there may be lost. */
export async function raw(socketPath, bytes, { ms = 3000, end = false } = {}) {
	const socket = net.connect(socketPath);
	await once(socket, 'connect');
	const parts = [];
	let isCut = false;
	socket.on('data', (part) => parts.push(part));
	socket.on('error', () => (isCut = true));
	socket.write(bytes);
	if (end) socket.end();
	const closed = new Promise((resolve) => socket.on('close', () => resolve(true)));
	let timer; // one that goes on would hold the file open
	const late = new Promise((resolve) => (timer = setTimeout(resolve, ms, false)));
	const isClosed = await Promise.race([closed, late]);
	clearTimeout(timer);
	socket.destroy();
	return { text: Buffer.concat(parts).toString('latin1'), closed: isClosed, isCut };
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Calls fn until it gives a truthy value; throws with `what` after `ms`. */
export async function until(fn, what = 'condition', ms = 30000) {
	const end = Date.now() + ms;
	let last;
	for (;;) {
		try {
			const value = await fn();
			if (value) return value;
			last = undefined;
		} catch (error) {
			last = error;
		}
		if (Date.now() > end) throw new Error(`not in ${ms} ms: ${what}${last ? `: ${last.message}` : ''}`);
		await sleep(20);
	}
}
