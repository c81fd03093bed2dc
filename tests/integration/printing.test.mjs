// What the command line prints: results alone in a pipe, and nothing that could command a terminal.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { clocheBin, run, withDaemon } from './lib.mjs';

describe('printing', () => {
	const cloche = withDaemon({ before, after });

	test('nothing but results in a pipe', async () => {
		const result = await cloche.cli(['sandbox', 'create', '--name', 'quiet']);
		assert.match(result.stdout, /^\S+\n$/);
		assert.equal(result.stderr, '');
		await cloche.ok(['sandbox', 'rm', '-f', 'quiet']);
	});

	test('names from inside cannot command a terminal', async () => {
		await cloche.create({ name: 'escape' });
		await cloche.exec('escape', ['sh', '-c', 'true', '\x1b]0;owned\x07\x7f\u009b2J\u202e']);
		await cloche.exec('escape', ['python3', '-c', 'open("/workspace/a\\x1b[2Jb", "w"); open("/workspace/\\u202egnp.exe", "w")']);
		await cloche.exec('escape', ['sh', '-c', 'ln -s /bin/true "$0" && "$0"', '/workspace/\u009b2J\u202e']);
		await cloche.exec('escape', ['/workspace/\u009b2J\u202e']);
		const commands = [['sandbox', 'execs', 'escape'], ['sandbox', 'events', 'escape'], ['events'], ['sandbox', 'files', 'ls', 'escape', '/workspace'], ['sandbox', 'files', 'stat', 'escape', '/workspace/a\x1b[2Jb']];
		for (const args of commands) {
			const out = await cloche.ok(args);
			assert.ok(!/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]/.test(out), args.join(' '));
		}
		const missing = await cloche.cli(['sandbox', 'files', 'cat', 'escape', '/workspace/\x1b[31mred']);
		assert.ok(!missing.stderr.includes('\x1b'), missing.stderr);
		await cloche.ok(['sandbox', 'rm', '-f', 'escape']);
	});

	test('every list and object is JSON when asked', async () => {
		await cloche.create({ name: 'json' });
		await cloche.exec('json', 'true');
		for (const args of [['sandbox', 'list'], ['sandbox', 'info', 'json'], ['sandbox', 'execs', 'json'], ['sandbox', 'files', 'ls', 'json', '/'], ['image', 'list'], ['image', 'info', 'host'], ['profile', 'list'], ['profile', 'show', 'default'], ['status'], ['version'], ['doctor']]) {
			assert.equal(typeof (await cloche.json(args)), 'object', args.join(' '));
			for (const line of (await cloche.ok(['-o', 'jsonl', ...args])).trim().split('\n')) JSON.parse(line);
		}
		await cloche.ok(['sandbox', 'rm', '-f', 'json']);
	});
});

describe('private daemons', () => {
	test('side by side, each with a directory of its own', async () => {
		const { CLOCHE_STATE: _, ...env } = process.env;
		const results = await Promise.all([1, 2, 3].map((i) => run(clocheBin(), ['run', '--', 'echo', String(i)], { env })));
		assert.deepEqual(results.map((one) => one.stdout), ['1\n', '2\n', '3\n'], results.map((one) => one.stderr).join(''));
	});
});
