// Commands in a running sandbox: streams, background, offsets, signals, timeouts.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { CHANNEL, WebSocketClient, readAll, sleep, until, withDaemon } from './lib.mjs';

describe('execs', () => {
	const cloche = withDaemon({ before, after });
	let box;
	before(async () => {
		box = (await cloche.create({ name: 'box' })).id;
	});
	const path = (id, rest = '') => `/sandboxes/${box}/execs/${id}${rest}`;
	const output = async (id, query = '') => (await cloche.api('GET', path(id, `/output${query}`))).bytes;
	const ended = (id) => until(async () => {
		const exec = await cloche.get('GET', path(id));
		return exec.state === 'ended' && exec;
	}, `${id} ended`);

	test('argv and shell, streams apart, exit code', async () => {
		const one = await cloche.exec(box, ['printf', '%s|', 'a b', '$HOME']);
		assert.equal(one.stdout, 'a b|$HOME|');
		const two = await cloche.exec(box, 'echo out; echo err >&2; exit 4');
		assert.equal(two.stdout, 'out\n');
		assert.equal(two.stderr, 'err\n');
		assert.equal(two.exitCode, 4);
		assert.equal(two.reason, 'exited');
		assert.equal(two.signal, null);
	});

	test('input, cwd, user, environment', async () => {
		assert.equal((await cloche.exec(box, ['cat'], { input: 'čau\n' })).stdout, 'čau\n');
		assert.equal((await cloche.exec(box, 'pwd', { cwd: '/tmp' })).stdout, '/tmp\n');
		assert.equal((await cloche.exec(box, 'id -u', { user: 'root' })).stdout, '0\n');
		assert.equal((await cloche.exec(box, 'id -u; id -g', { user: '1234:1235' })).stdout, '1234\n1235\n');
		assert.equal((await cloche.exec(box, 'echo $A', { env: { A: 'b c' } })).stdout, 'b c\n');
	});

	test('bytes that are no text come as base64 too', async () => {
		const result = await cloche.exec(box, 'printf "\\377\\376"');
		assert.equal(result.stdoutBase64, Buffer.from([255, 254]).toString('base64'));
	});

	test('a signal is reported as one', async () => {
		const result = await cloche.exec(box, 'kill -SEGV $$');
		assert.equal(result.signal, 11);
		assert.equal(result.exitCode, null);
		assert.equal(result.reason, 'signal');
	});

	test('a timeout kills the whole group', async () => {
		const result = await cloche.exec(box, 'setsid sh -c "sleep 300" & (trap "" TERM; sleep 300) & sleep 300', { timeoutMs: 500 });
		assert.equal(result.reason, 'timeout');
		const left = await cloche.exec(box, 'ps -eo args 2>/dev/null || cat /proc/[0-9]*/cmdline | tr "\\0" " "');
		assert.ok(!/sleep 300/.test(left.stdout.replace(/ps -eo.*/, '')), left.stdout);
	});

	test('what it starts ends with it or is killed with it', async () => {
		const result = await cloche.exec(box, 'sleep 200 >/dev/null 2>&1 & echo started');
		assert.equal(result.stdout, 'started\n');
	});

	test('background: an id at once, output from the start, exit record', async () => {
		const out = await cloche.ok(['sandbox', 'exec', '--background', 'box', '--', 'sh', '-c', 'for i in 1 2 3; do echo line $i; sleep 0.2; done; exit 5']);
		const id = out.trim();
		assert.match(id, /^ex_[0-9a-z]{20}$/);
		assert.equal((await cloche.get('GET', path(id))).state, 'running');
		const exec = await ended(id);
		assert.equal(exec.exitCode, 5);
		assert.equal(String(await output(id)), 'line 1\nline 2\nline 3\n');
		assert.equal(await cloche.ok(['sandbox', 'logs', 'box', '--exec', id]), 'line 1\nline 2\nline 3\n');
		const list = await cloche.get('GET', `/sandboxes/${box}/execs`);
		assert.ok(list.items.some((one) => one.id === id && one.background));
	});

	test('output by offset, by stream, followed', async () => {
		const { id } = await cloche.exec(box, 'printf abcdef; sleep 0.3; printf ERR >&2; sleep 0.3; printf ghi', { background: true });
		const followed = await cloche.stream('GET', `/sandboxes/${box}/execs/${id}/output?follow=1&stream=all`);
		assert.equal(String(await readAll(followed)), 'abcdefERRghi');
		assert.equal(String(await output(id, '?stream=stdout&offset=3')), 'defghi');
		assert.equal(String(await output(id, '?stream=stderr')), 'ERR');
		assert.equal(String(await output(id, '?stream=all&offset=4')), 'efERRghi');
		assert.equal(String(await output(id, '?offset=100')), '');
	});

	test('output as events resumes without a gap', async () => {
		const { id } = await cloche.exec(box, 'for i in $(seq 1 50); do echo $i; sleep 0.01; done', { background: true });
		let text = '';
		let last;
		for (let round = 0; round < 4; round++) {
			const events = await cloche.events(path(id, '/output?follow=1'), { lastEventId: last });
			for (let i = 0; i < 6; i++) {
				const event = await events.next();
				if (!event) break;
				const data = JSON.parse(event.data);
				if (data.data !== undefined) text += Buffer.from(data.data, 'base64');
				last = event.id;
			}
			events.close();
		}
		const rest = await cloche.events(path(id, '/output?follow=1'), { lastEventId: last });
		for (let event; (event = await rest.next()); ) {
			const data = JSON.parse(event.data);
			if (data.data !== undefined) text += Buffer.from(data.data, 'base64');
		}
		assert.equal(text, Array.from({ length: 50 }, (_, i) => `${i + 1}\n`).join(''));
	});

	test('signals and kill', async () => {
		const { id } = await cloche.exec(box, 'trap "echo usr1" USR1; echo up; while :; do sleep 0.05; done', { background: true });
		await until(async () => String(await output(id)).includes('up'), 'up');
		await cloche.get('POST', path(id, '/signal'), { signal: 'USR1' });
		await until(async () => String(await output(id)).includes('usr1'), 'usr1');
		assert.equal((await cloche.api('POST', path(id, '/signal'), { signal: 'NOSUCH' })).status, 400);
		await cloche.get('POST', path(id, '/kill'));
		const exec = await ended(id);
		assert.equal(exec.signal, 9);
		assert.equal(exec.reason, 'killed');
		assert.ok([204, 409].includes((await cloche.api('POST', path(id, '/kill'))).status));
	});

	test('input in pieces, then its end', async () => {
		const { id } = await cloche.exec(box, ['cat'], { background: true, stdin: true });
		for (const part of ['one ', 'two ', 'three']) assert.equal((await cloche.api('POST', path(id, '/stdin'), part)).status, 204);
		assert.equal((await cloche.api('POST', path(id, '/stdin?eof=1'), '!')).status, 204);
		assert.equal((await ended(id)).exitCode, 0);
		assert.equal(String(await output(id)), 'one two three!');
	});

	test('much input and output through the command line', async () => {
		const bytes = Buffer.alloc(8 << 20, 'abcdefghijklmnopqrstuvwxyz012345\n');
		const { code, stdout } = await cloche.cli(['sandbox', 'exec', 'box', '--', 'cat'], { input: bytes, binary: true });
		assert.equal(code, 0);
		assert.ok(bytes.equals(stdout), `${stdout.length} of ${bytes.length} bytes`);
	});

	test('an attached reader gets every byte, however slow', async () => {
		const { id } = await cloche.exec(box, 'seq 1 400000', { attach: true });
		const socket = await cloche.attach(box, id);
		socket.socket.pause();
		await sleep(500);
		socket.socket.resume();
		const { stdout, exit, gaps } = await socket.finish();
		assert.deepEqual(gaps, []);
		assert.equal(exit.exitCode, 0);
		assert.equal(stdout.length, Array.from({ length: 400000 }, (_, i) => String(i + 1).length + 1).reduce((a, b) => a + b));
		assert.ok(stdout.toString().endsWith('399999\n400000\n'));
	});

	test('background output keeps the newest, and says what went', async () => {
		const { id } = await cloche.exec(box, 'head -c 40000000 /dev/zero | tr "\\0" x; echo; echo last', { background: true });
		await until(async () => (await cloche.get('GET', path(id))).state === 'ended', 'ended');
		const bytes = await output(id);
		assert.ok(bytes.length < 20 << 20, `${bytes.length} bytes kept`);
		assert.ok(bytes.subarray(-5).equals(Buffer.from('last\n')));
		const socket = await cloche.attach(box, id, '?offset=0');
		const { gaps } = await socket.finish();
		assert.equal(gaps.length, 1, 'the gap is explicit');
	});

	test('an ended one can be forgotten, a running one not', async () => {
		const { id } = await cloche.exec(box, 'sleep 30', { background: true });
		assert.equal((await cloche.api('DELETE', path(id))).status, 409);
		await cloche.get('POST', path(id, '/kill'));
		await ended(id);
		assert.equal((await cloche.api('DELETE', path(id))).status, 204);
		assert.equal((await cloche.api('GET', path(id))).status, 404);
	});

	test('many at once', async () => {
		const results = await Promise.all(Array.from({ length: 24 }, (_, i) => cloche.exec(box, `echo ${i}; exit ${i}`)));
		results.forEach((result, i) => {
			assert.equal(result.stdout, `${i}\n`);
			assert.equal(result.exitCode, i);
		});
	});

	test('large arguments and environment have a clear end', async () => {
		const fine = await cloche.exec(box, ['sh', '-c', 'echo ${#0}', 'x'.repeat(60000)]);
		assert.equal(fine.stdout, '60000\n');
		const big = await cloche.api('POST', `/sandboxes/${box}/execs`, { argv: ['true', 'x'.repeat(200000)] });
		assert.ok(big.status === 400 || big.status === 413, String(big.bytes));
	});

	test('zombies are reaped, orphans adopted', async () => {
		await cloche.exec(box, 'for i in $(seq 50); do (sleep 0.01 &) ; done; sleep 0.2');
		const { stdout } = await cloche.exec(box, 'grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l');
		assert.equal(stdout.trim(), '0');
	});

	const stay = async (wish, where = box) => {
		const socket = await WebSocketClient.open(cloche.socket, `/api/v1/sandboxes/${where}/exec`);
		socket.sendRaw(1, JSON.stringify(wish));
		return { socket, said: JSON.parse(await socket.next()) };
	};

	test('a command and its streams in one conversation', async () => {
		const { socket, said } = await stay({ shell: 'cat; echo to err >&2; exit 3', stdin: true });
		assert.equal(said.sandbox.id, box);
		assert.ok(said.sandbox.limits.memory > 0);
		// what is said is stored
		assert.equal((await cloche.get('GET', path(said.exec.id))).state, 'running');
		socket.send(CHANNEL.stdin, 'fed');
		socket.send(CHANNEL.stdin);
		const { stdout, stderr, exit } = await socket.finish();
		assert.deepEqual([String(stdout), String(stderr), exit.exitCode, exit.reason], ['fed', 'to err\n', 3, 'exited']);
		assert.equal((await ended(said.exec.id)).exitCode, 3);
	});

	test('what such a conversation refuses it says', async () => {
		for (const [wish, code] of [
			[{ argv: ['no-such-program'] }, 'program_not_found'],
			[{ argv: ['true'], background: true }, 'invalid'],
			[{ argv: ['cat'], input: 'x' }, 'invalid'],
			[{ argv: ['true'], nonsense: 1 }, 'invalid'],
			[{ argv: ['true'], user: 'nobody-of-that-name' }, 'invalid'],
		]) {
			const { socket, said } = await stay(wish);
			assert.equal(said.error?.code, code, JSON.stringify(said));
			assert.equal(await socket.next(), null);
		}
		await assert.rejects(stay({ argv: ['true'] }, 'no-such-sandbox'), { status: 404 });
		const { socket } = await stay({ argv: ['sleep', '100'] });
		socket.sendRaw(1, JSON.stringify({ argv: ['true'] }));
		assert.equal(await socket.next(), null);
		assert.equal(socket.closeCode, 1008);
	});

	test('who leaves such a conversation leaves the command running', async () => {
		const { socket, said } = await stay({ shell: 'echo one; sleep 0.5; echo two' });
		socket.socket.destroy();
		assert.equal((await ended(said.exec.id)).exitCode, 0);
		const { bytes } = await cloche.api('GET', path(said.exec.id, '/output'));
		assert.equal(String(bytes), 'one\ntwo\n');
	});

	test('one request for one command, in a sandbox of its own', async () => {
		const once = (exec, sandbox = {}) => cloche.api('POST', '/run', { sandbox, exec });
		const { status, body } = await once({ shell: 'cat; echo to err >&2; exit 3', input: 'fed' });
		assert.equal(status, 200);
		assert.deepEqual([body.exitCode, body.stdout, body.stderr, body.reason], [3, 'fed', 'to err\n', 'exited']);
		assert.equal((await once({ argv: ['no-such-program'] })).status, 422);
		assert.equal((await once({ argv: ['cat'], stdin: true })).status, 400);
		assert.equal((await once({ shell: 'sleep 30', timeoutMs: 200 })).body.reason, 'timeout');
		const { items } = await cloche.get('GET', '/sandboxes');
		assert.deepEqual(items.filter((one) => one.id !== box && one.state !== 'removing'), []);
	});

	test('a command that is over at once, and one that is not', async () => {
		const once = async (exec) => (await cloche.api('POST', '/run', { sandbox: {}, exec })).body;
		for (let i = 0; i < 20; i++) {
			const [ok, failed, killed] = await Promise.all([once({ argv: ['/bin/true'] }), once({ shell: 'echo a; echo b >&2; exit 7' }), once({ shell: 'kill -9 $$' })]);
			assert.deepEqual([ok.exitCode, ok.reason, ok.stdout], [0, 'exited', '']);
			assert.deepEqual([failed.exitCode, failed.stdout, failed.stderr], [7, 'a\n', 'b\n']);
			assert.deepEqual([killed.signal, killed.reason], [9, 'signal'], JSON.stringify(killed));
		}
		// What it leaves behind is part of it, and another command has room beside it.
		const long = once({ shell: 'until [ -e /workspace/go ]; do sleep 0.01; done; cat /workspace/go' });
		const other = await until(async () => (await cloche.get('GET', '/sandboxes')).items.find((one) => one.id !== box && one.state === 'running')?.id, 'it runs');
		assert.equal((await cloche.exec(other, 'echo from another')).stdout, 'from another\n');
		await cloche.exec(other, 'echo gone > /workspace/.go; mv /workspace/.go /workspace/go').catch(() => {}); // may end with it
		assert.equal((await long).stdout, 'gone\n');
	});
});
