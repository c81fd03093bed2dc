// Terminals over WebSocket: echo, resize, several readers, one writer, re-attachment.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { CHANNEL, WebSocketClient, sleep, until, withDaemon } from './lib.mjs';

describe('terminal', () => {
	const cloche = withDaemon({ before, after });
	let box;
	before(async () => {
		box = (await cloche.create()).id;
	});
	const shell = async (more = {}) =>
		(await cloche.get('POST', `/sandboxes/${box}/execs`, { argv: ['bash', '--norc', '--noprofile'], tty: true, rows: 24, cols: 80, attach: true, env: { PS1: '> ' }, ...more })).id;

	test('is a terminal with the size it was given', async () => {
		const socket = await cloche.attach(box, await shell({ rows: 31, cols: 117 }));
		assert.equal(socket.response.headers['sec-websocket-protocol'], 'cloche.v1');
		await socket.expect('> ');
		socket.send(CHANNEL.stdin, 'tty; stty size; echo $TERM\r');
		const seen = await socket.expect('31 117');
		assert.match(seen, /\/dev\/pts\/\d+/);
		socket.resize(50, 200);
		socket.send(CHANNEL.stdin, 'stty size\r');
		await socket.expect('50 200');
		socket.send(CHANNEL.stdin, 'exit 6\r');
		const { exit } = await socket.finish();
		assert.equal(exit.exitCode, 6);
	});

	test('ctrl-c reaches the foreground only', async () => {
		const socket = await cloche.attach(box, await shell());
		await socket.expect('> ');
		socket.send(CHANNEL.stdin, 'sleep 100\r');
		await sleep(300);
		socket.send(CHANNEL.stdin, '\x03');
		await socket.expect('> '); // an interrupt flushes what was typed meanwhile
		socket.send(CHANNEL.stdin, 'echo alive-$?\r');
		await socket.expect('alive-130');
		socket.send(CHANNEL.stdin, 'exit\r'); // an end of file before the prompt would be lost with the mode of the terminal
		await socket.finish();
	});

	test('job control works', async () => {
		const socket = await cloche.attach(box, await shell());
		await socket.expect('> ');
		socket.send(CHANNEL.stdin, 'sleep 100\r');
		await sleep(300);
		socket.send(CHANNEL.stdin, '\x1a');
		await socket.expect('Stopped');
		socket.send(CHANNEL.stdin, 'fg\r');
		await socket.expect('sleep 100\r\n');
		socket.send(CHANNEL.stdin, '\x03');
		await socket.expect('> ');
		socket.send(CHANNEL.stdin, 'exit\r');
		await socket.finish();
	});

	test('goes on without anybody, and is found again from the start', async () => {
		const id = await shell({ attach: false, background: true });
		const first = await cloche.attach(box, id);
		await first.expect('> ');
		first.send(CHANNEL.stdin, 'echo before-$((40+2))\r');
		await first.expect('before-42');
		first.close();
		await sleep(200);
		assert.equal((await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state, 'running');
		const second = await cloche.attach(box, id, '?offset=0');
		await second.expect('before-42');
		second.send(CHANNEL.stdin, 'echo after-$((40+3)); exit\r');
		const { stdout, exit } = await second.finish();
		assert.match(stdout.toString(), /after-43/);
		assert.equal(exit.exitCode, 0);
	});

	test('readers look, one writes', async () => {
		const id = await shell();
		const writer = await cloche.attach(box, id);
		await writer.expect('> ');
		const reader = await cloche.attach(box, id, '?readonly=1');
		const typist = await cloche.attach(box, id, '?readonly=1');
		typist.send(CHANNEL.stdin, 'echo from-the-reader\r');
		await until(() => typist.closed, 'a reader that types is told to go');
		assert.equal(typist.closeCode, 1008);
		writer.send(CHANNEL.stdin, 'echo from-the-$((0+1))-writer\r');
		await writer.expect('from-the-1-writer');
		const seen = await reader.expect('from-the-1-writer');
		assert.ok(!seen.includes('from-the-reader'));
		const second = await cloche.attach(box, id).then(
			(socket) => socket,
			(error) => error,
		);
		if (second instanceof WebSocketClient) {
			// Taken as a reader or told to go: what it types must not arrive either way.
			second.send(CHANNEL.stdin, 'echo second-$((1+1))-writer\r');
			await sleep(300);
			writer.send(CHANNEL.stdin, 'echo mark-$((1+2))\r');
			assert.ok(!(await writer.expect('mark-3')).includes('second-2-writer'));
			second.close();
		} else {
			assert.equal(second.status, 409);
		}
		writer.send(CHANNEL.stdin, 'exit\r');
		await writer.finish();
		reader.close();
	});

	test('a signal channel', async () => {
		const { id } = await cloche.get('POST', `/sandboxes/${box}/execs`, { shell: 'trap "echo hup; exit 1" HUP; echo up; while :; do sleep 0.05; done', attach: true });
		const socket = await cloche.attach(box, id);
		await socket.expect('up');
		socket.send(CHANNEL.signal, Buffer.from([1]));
		const { stdout, exit } = await socket.finish();
		assert.match(stdout.toString(), /hup/);
		assert.equal(exit.exitCode, 1);
	});

	test('streams without a terminal, end of input by an empty message', async () => {
		const { id } = await cloche.get('POST', `/sandboxes/${box}/execs`, { shell: 'cat; echo err >&2', stdin: true, attach: true });
		const socket = await cloche.attach(box, id);
		socket.send(CHANNEL.stdin, 'abc');
		socket.send(CHANNEL.stdin);
		const { stdout, stderr, exit } = await socket.finish();
		assert.equal(stdout.toString(), 'abc');
		assert.equal(stderr.toString(), 'err\n');
		assert.equal(exit.exitCode, 0);
	});

	test('nonsense closes the connection, not the command', async () => {
		const id = await shell();
		const socket = await cloche.attach(box, id);
		await socket.expect('> ');
		for (const message of [[99, 1, 2], [CHANNEL.resize, 1], [CHANNEL.signal], [], [CHANNEL.exit, 0x7b]]) {
			const one = socket.closed ? await cloche.attach(box, id).catch(() => null) : socket;
			one?.sendRaw(2, message);
		}
		await sleep(200);
		assert.equal((await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state, 'running');
		await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
	});

	test('an upgrade that is none gets an answer', async () => {
		const id = await shell();
		const plain = await cloche.api('GET', `/sandboxes/${box}/execs/${id}/attach`);
		assert.ok(plain.status >= 400 && plain.status < 500, String(plain.status));
		await assert.rejects(WebSocketClient.open(cloche.socket, `/api/v1/sandboxes/${box}/execs/${id}/attach`, { protocol: 'other.v9' }), (error) => error.status === 400);
		await cloche.get('POST', `/sandboxes/${box}/execs/${id}/kill`);
		await until(async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state === 'ended', 'ended');
	});
});
