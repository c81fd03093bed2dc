// Tasks through the whole durable path: how many a second, how long one takes and when its first
// byte is there, whether a store full of finished ones slows anybody down, and what the daemon
// weighs with many at work and many who listen.
// Usage: CLOCHE_BUILD=build node tests/bench/tasks.mjs [SECONDS] [IN_FLIGHT] [FINISHED] [AT_WORK] [LISTENERS] [DISK]
// DISK: the disk_backend of the sandboxes; auto unless told.
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';

import { Daemon, sleep } from '../integration/lib.mjs';

const [seconds, flight, finished, working, listening] = [10, 100, 2000, 0, 0].map((otherwise, i) => Number(process.argv[i + 2] ?? otherwise));
const disk = process.argv[7] ?? 'auto';
const at = (list, part) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))];
const ms = (list) => `p50 ${at(list, 0.5).toFixed(1)} ms  p99 ${at(list, 0.99).toFixed(1)} ms`;

// as many ready as come before the first are replaced: more only cost memory, and are as many to take down
const daemon = await Daemon.start({ logsToFile: true, config: `[sandboxes.default]\npool = 32\ndisk_backend = "${disk}"\n[server]\nlisten = "none"\n[tasks]\nteam_concurrency = 2000\nconcurrency = 2000\n` });
// whoever interrupts it leaves nothing behind
process.once('SIGTERM', () => daemon.stop().finally(() => process.exit(143)));
const agent = new http.Agent({ keepAlive: true, maxSockets: flight });
const ask = (method, path, body, headers = {}) =>
	new Promise((resolve, reject) => {
		const request = http.request({ socketPath: daemon.socket, agent, method, path: `/api/v1${path}`, headers: { 'content-type': 'application/json', ...headers } }, (response) => {
			let text = '';
			response.on('data', (part) => (text += part));
			response.on('end', () => resolve(JSON.parse(text)));
		});
		request.on('error', reject);
		request.end(body && JSON.stringify(body));
	});
const timed = async (list, what) => {
	const begun = performance.now();
	const answer = await what();
	list.push(performance.now() - begun);
	return answer;
};
/** Until the stream of its output has something. */
const firstByte = (id) =>
	new Promise((resolve, reject) => {
		const request = http.get({ socketPath: daemon.socket, path: `/api/v1/tasks/${id}/logs?follow=true` }, (response) => {
			response.once('data', () => {
				resolve();
				request.destroy();
			});
			response.once('error', () => {});
		});
		request.on('error', reject);
	});
const listen = () =>
	new Promise((resolve, reject) => {
		const request = http.get({ socketPath: daemon.socket, path: '/api/v1/events', headers: { accept: 'text/event-stream' } }, (response) => {
			response.on('data', () => {});
			response.on('error', () => {});
			resolve(request);
		});
		request.on('error', reject);
	});
const weight = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${daemon.daemonProcess().pid}/status`, 'utf8'))[1]) / 1024;
/** Processor time of the daemon, in milliseconds (a tick is ten). */
const worked = () => {
	const [, user, system] = /\) \S(?: \S+){10} (\d+) (\d+)/.exec(fs.readFileSync(`/proc/${daemon.daemonProcess().pid}/stat`, 'utf8'));
	return (Number(user) + Number(system)) * 10;
};
const run = () => ask('POST', '/tasks/run', { instruction: 'true' }, { prefer: 'wait=60' });
/** The same over one connection of its own, without what an HTTP client does besides: it shares the processors with what is measured. */
const runner = () => {
	const body = JSON.stringify({ instruction: 'true' });
	const bytes = `POST /api/v1/tasks/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nPrefer: wait=60\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
	const socket = net.connect(daemon.socket);
	let text = '';
	let waiting;
	const end = (how, what) => {
		const { resolve, reject } = waiting ?? {};
		waiting = undefined;
		(how === 'answer' ? resolve : reject)?.(what);
	};
	socket.setEncoding('utf8');
	socket.on('data', (part) => {
		text += part;
		const head = text.indexOf('\r\n\r\n');
		const length = Number(/^content-length: (\d+)/im.exec(text)?.[1]);
		if (head < 0 || Buffer.byteLength(text) - Buffer.byteLength(text.slice(0, head)) - 4 < length) return;
		const answer = text.slice(head + 4);
		text = '';
		end('answer', JSON.parse(answer));
	});
	socket.on('error', (error) => end('error', error));
	socket.on('close', () => end('error', new Error('the connection ended')));
	return {
		run: () =>
			new Promise((resolve, reject) => {
				waiting = { resolve, reject };
				socket.write(bytes);
			}),
		end: () => socket.destroy(),
	};
};
const isGood = ({ task }) => task?.endReason === 'finished';

try {
	await sleep(8000); // the pool fills
	const one = [];
	for (let i = 0; i < 30; i++) {
		await timed(one, run);
		await sleep(80);
	}
	console.log(`one after another, until its end is told   ${ms(one)}`);

	const first = [];
	for (let i = 0; i < 30; i++) {
		const begun = performance.now();
		const { task } = await ask('POST', '/tasks/run', { instruction: 'echo first; sleep 0.1' });
		await firstByte(task.id);
		first.push(performance.now() - begun);
		await sleep(250);
	}
	console.log(`from the request to the first byte of output   ${ms(first)}`);

	const looks = async () => {
		const [list, status] = [[], []];
		const { items } = await ask('GET', '/tasks?limit=20');
		for (let i = 0; i < 200; i++) {
			await timed(list, () => ask('GET', '/tasks?limit=20'));
			await timed(status, () => ask('GET', `/tasks/${items[0].id}`));
		}
		return { list: at(list, 0.5), status: at(status, 0.5) };
	};
	const few = await looks();

	const all = [];
	let lost = 0;
	const before = worked();
	const began = performance.now();
	const end = began + seconds * 1000;
	const loop = async (more) => {
		const own = runner();
		while (more()) if (!isGood(await timed(all, own.run))) lost++;
		own.end();
	};
	await Promise.all(Array.from({ length: flight }, () => loop(() => performance.now() < end)));
	console.log(`${flight} in flight for ${seconds} s   ${(all.length / ((performance.now() - began) / 1000)).toFixed(0)} tasks a second, ${lost} lost   ${ms(all)}, daemon ${((worked() - before) / all.length).toFixed(1)} ms of processor time each`);

	await Promise.all(Array.from({ length: 32 }, () => loop(() => all.length < finished)));
	const many = await looks();
	console.log(`list and status with ${all.length} finished against ${one.length}: ${(many.list / few.list).toFixed(2)} and ${(many.status / few.status).toFixed(2)} times`);

	if (working || listening) {
		const made = [];
		let asked = 0;
		const start = async () => {
			while (asked < working) {
				asked++;
				made.push((await ask('POST', '/tasks/run', { instruction: 'sleep 500', timeout: 600000 })).task.id);
			}
		};
		await Promise.all(Array.from({ length: 8 }, start));
		const readers = [];
		for (let i = 0; i < listening; i++) readers.push(await listen());
		const isAtWork = async (id) => (await ask('GET', `/tasks/${id}`)).task.run.step === 'wait';
		for (const id of made) while (!(await isAtWork(id))) await sleep(200);
		await ask('POST', '/tasks/run', { instruction: 'true' }, { prefer: 'wait=60' });
		console.log(`the daemon with ${working} at work and ${listening} who listen: ${weight().toFixed(1)} MiB`);
		for (const reader of readers) reader.destroy();
		for (const id of made) await ask('POST', `/tasks/${id}/stop`, {});
	}
} finally {
	await daemon.stop();
}
