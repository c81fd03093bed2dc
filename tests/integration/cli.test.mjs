// The command line at a terminal, in pipes, with signals, and with a daemon of its own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { allProcesses, clocheBin, commandLine, isRoot, run, sleep, until, withDaemon } from './lib.mjs';

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

/** A command line on a terminal of its own (script(1) brings the pty): type, expect, wait. */
class Terminal {
	constructor(env, args) {
		const line = [clocheBin(), ...args].map(quote).join(' ');
		this.child = spawn('script', ['-qfec', line, '/dev/null'], { env: { ...env, TERM: 'xterm', SHELL: '/bin/sh' }, stdio: ['pipe', 'pipe', 'pipe'] });
		this.seen = '';
		this.child.stdout.on('data', (part) => (this.seen += part));
		this.ended = once(this.child, 'close').then(([code]) => code);
	}

	type(text) {
		this.child.stdin.write(text);
	}

	async expect(text) {
		const found = () => (text instanceof RegExp ? text.test(this.seen) : this.seen.includes(text));
		await until(found, `${text} in ${JSON.stringify(this.seen)}`).catch((error) => {
			this.child.kill('SIGKILL');
			throw new Error(`${error.message}: ${JSON.stringify(this.seen)}`);
		});
		this.seen = '';
	}
}

describe('command line', () => {
	const cloche = withDaemon({ before, after });
	const start = (args) => {
		const child = spawn(clocheBin(), args, { env: cloche.env, stdio: ['ignore', 'pipe', 'pipe'] });
		child.seen = '';
		child.stdout.on('data', (part) => (child.seen += part));
		child.ended = once(child, 'close').then(([code, signal]) => code ?? signal);
		return child;
	};
	const nothingLeft = () => until(async () => (await cloche.get('GET', '/sandboxes')).items.every((one) => !one.labels.ephemeral), 'the sandbox is gone');

	test('run with a terminal: size, keys, exit status', async () => {
		const terminal = new Terminal(cloche.env, ['run', '--', 'bash', '--norc', '--noprofile']);
		await terminal.expect('$ ');
		terminal.type('tty; echo T=$TERM\r');
		await terminal.expect(/\/dev\/pts\/\d+[^]*T=xterm/);
		terminal.type('sleep 100\r');
		await sleep(300);
		terminal.type('\x03');
		terminal.type('echo A$?B\r');
		await terminal.expect('A130B');
		terminal.type('exit 5\r');
		assert.equal(await terminal.ended, 5);
	});

	test('run without a terminal when told so', async () => {
		const terminal = new Terminal(cloche.env, ['run', '-T', '--', 'sh', '-c', 'test -t 0 || echo no terminal']);
		await terminal.expect('no terminal');
		assert.equal(await terminal.ended, 0);
	});

	test('a shell can be left and found again', async () => {
		const id = (await cloche.ok(['sandbox', 'create'])).trim();
		const first = new Terminal(cloche.env, ['sandbox', 'shell', id]);
		await first.expect('$ ');
		first.type('kept=$((40+2))\r');
		await first.expect('$ ');
		await sleep(200);
		first.type('\x10\x11');
		await first.expect('detached');
		assert.equal(await first.ended, 0);
		const second = new Terminal(cloche.env, ['sandbox', 'attach', id]);
		await sleep(300);
		second.type('echo is-$kept\r');
		await second.expect('is-42');
		const reader = new Terminal(cloche.env, ['sandbox', 'attach', '--read-only', id]);
		await reader.expect('is-42');
		second.type('echo seen-$((1+1))\r');
		await reader.expect('seen-2');
		reader.type('\x10\x11');
		assert.equal(await reader.ended, 0);
		second.type('exit 9\r');
		assert.equal(await second.ended, 9);
		await cloche.ok(['sandbox', 'rm', '--force', id]);
	});

	test('signals reach the command', async () => {
		const child = start(['run', '--', 'sh', '-c', 'trap "echo got; exit 33" INT; echo ready; while :; do sleep 0.1; done']);
		await until(() => child.seen.includes('ready'), 'it runs');
		child.kill('SIGINT');
		assert.equal(await child.ended, 33);
		assert.match(child.seen, /got/);
		await nothingLeft();
	});

	test('a command that ignores signals does not hold the user', async () => {
		const child = start(['run', '--', 'sh', '-c', 'trap "" INT; echo ready; while :; do sleep 0.1; done']);
		await until(() => child.seen.includes('ready'), 'it runs');
		for (let i = 0; i < 3; i++) {
			child.kill('SIGINT');
			await sleep(100);
		}
		assert.equal(await child.ended, 130);
		await nothingLeft();
	});

	test('a reader that goes away ends the command as a pipe would', async () => {
		const result = await run('sh', ['-c', `${quote(clocheBin())} run -- yes | head -1; echo $?`], { env: cloche.env });
		assert.equal(result.stdout, 'y\n0\n');
		await nothingLeft();
	});

	test('a daemon that dies in between is not noticed', async () => {
		const child = start(['run', '--', 'sh', '-c', 'for i in $(seq 1 20); do echo line$i; sleep 0.1; done; exit 4']);
		await until(() => child.seen.includes('line3'), 'it runs');
		process.kill((await cloche.json(['status'])).pid, 'SIGKILL');
		assert.equal(await child.ended, 4);
		assert.equal(child.seen, Array.from({ length: 20 }, (_, i) => `line${i + 1}\n`).join(''));
		await nothingLeft();
	});

	test('arguments of the command are left alone', async () => {
		assert.equal(await cloche.ok(['run', 'printf', '%s\n', '-e', '--', '--help']), '-e\n--\n--help\n');
		assert.equal(await cloche.ok(['run', '--', 'printf', '%s\n', '--', '-x']), '--\n-x\n');
		const id = (await cloche.ok(['sandbox', 'create'])).trim();
		assert.equal(await cloche.ok(['sandbox', 'exec', id, '-e', 'A=1', '--', 'sh', '-c', 'echo $A $0', '--', '-o']), '1 --\n');
		assert.equal(await cloche.ok(['sandbox', 'exec', id, 'ls', '-d', '/']), '/\n');
		await cloche.ok(['sandbox', 'rm', '-f', id]);
	});

	test('with -o json a command is one object', async () => {
		const result = await cloche.cli(['-o', 'json', 'run', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3']);
		const object = JSON.parse(result.stdout);
		assert.equal(result.code, 3);
		assert.deepEqual([object.exitCode, object.stdout, object.stderr], [3, 'out\n', 'err\n']);
		const failed = await cloche.cli(['-o', 'json', 'sandbox', 'info', 'nobody']);
		assert.equal(failed.code, 66);
		assert.equal(JSON.parse(failed.stderr).code, 'not_found');
	});

	test('trees go in and come out unchanged', async () => {
		const id = (await cloche.ok(['sandbox', 'create'])).trim();
		const from = path.join(cloche.folder, 'tree');
		const to = path.join(cloche.folder, 'back');
		fs.mkdirSync(path.join(from, 'a/b'), { recursive: true });
		fs.writeFileSync(path.join(from, 'a/b/file'), 'content');
		fs.writeFileSync(path.join(from, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
		fs.symlinkSync('a/b/file', path.join(from, 'link'));
		await cloche.ok(['sandbox', 'cp', from, `${id}:/workspace`]);
		assert.equal(await cloche.ok(['sandbox', 'exec', id, '--', 'sh', '-c', 'cat tree/link; test -x tree/run.sh && echo +x']), 'content+x\n');
		await cloche.ok(['sandbox', 'cp', `${id}:tree`, to]);
		assert.equal(fs.readFileSync(path.join(to, 'a/b/file'), 'utf8'), 'content');
		assert.equal(fs.readlinkSync(path.join(to, 'link')), 'a/b/file');
		await cloche.ok(['sandbox', 'cp', `${id}:tree/run.sh`, to]);
		const missing = await cloche.cli(['sandbox', 'cp', `${id}:/nothing`, to]);
		assert.equal(missing.code, 66, missing.stderr);
		await cloche.ok(['sandbox', 'rm', '-f', id]);
	});
});

describe('a private daemon', { skip: isRoot ? false : 'needs root or a delegated cgroup' }, () => {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-private-'));
	const env = { ...process.env, TMPDIR: folder, HOME: folder };
	delete env.CLOCHE_STATE;
	const served = () => allProcesses().filter((info) => commandLine(info.pid).some((word) => word.startsWith(folder)));
	const gone = () => until(() => fs.readdirSync(folder).length === 0 && served().length === 0, 'everything is gone');
	// root's own daemon would be used instead
	const hasSystem = fs.existsSync('/var/lib/cloche/cloche.sock');
	after(() => fs.rmSync(folder, { recursive: true }));

	test('serves one run and leaves nothing', { skip: hasSystem }, async () => {
		const result = await run(clocheBin(), ['run', '--', 'sh', '-c', 'echo private; exit 3'], { env });
		assert.equal(result.stdout, 'private\n', result.stderr);
		assert.equal(result.stderr, '');
		assert.equal(result.code, 3);
		await gone();
	});

	test('goes when the command line is interrupted or killed', { skip: hasSystem }, async () => {
		for (const signal of ['SIGTERM', 'SIGKILL']) {
			const child = spawn(clocheBin(), ['run', '--', 'sh', '-c', 'echo ready; sleep 100'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
			await once(child.stdout, 'data');
			child.kill(signal);
			await once(child, 'exit');
			await gone();
		}
	});

	test('on a directory that was named, it ends and the directory stays', async () => {
		const state = path.join(folder, 'state');
		const result = await run(clocheBin(), ['run', '--state', state, '--', 'echo', 'named'], { env });
		assert.equal(result.stdout, 'named\n', result.stderr);
		assert.ok(fs.existsSync(path.join(state, 'lock')));
		await until(() => served().length === 0, 'the daemon has ended');
		assert.equal((await run(clocheBin(), ['stop', '--state', state], { env })).code, 0);
		fs.rmSync(state, { recursive: true });
	});
});
