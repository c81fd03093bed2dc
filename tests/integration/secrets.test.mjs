// Secrets that were given to commands: in no file of the state directory, and in nothing that is shown.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

const WAIT = { headers: { Prefer: 'wait=60' } };
const CANARY = 'canary-0a1b2c3d4e';

/** Files below a folder that have the text in them. */
function filesWith(folder, text) {
	const found = [];
	const walk = (at) => {
		for (const entry of fs.readdirSync(at, { withFileTypes: true })) {
			const full = path.join(at, entry.name);
			try {
				if (entry.isDirectory()) walk(full);
				else if (entry.isFile() && fs.readFileSync(full).includes(text)) found.push(full);
			} catch {} // it went meanwhile
		}
	};
	walk(folder);
	return found;
}

describe('secrets', () => {
	const cloche = withDaemon({ before, after });
	const run = async (body) => {
		const answer = await cloche.api('POST', '/tasks/run', body, WAIT);
		assert.ok(answer.status < 300, String(answer.bytes));
		return answer.body.task;
	};

	test('are in no file of the state directory', async () => {
		const box = await cloche.create({ env: { API_TOKEN: `${CANARY}-box` } });
		const inside = await cloche.ok(['sandbox', 'exec', box.id, '-e', `OTHER_TOKEN=${CANARY}-exec`, '--', 'sh', '-c', 'test -n "$API_TOKEN" && test -n "$OTHER_TOKEN" && echo both']);
		assert.equal(inside, 'both\n');
		const task = await run({ instruction: 'test -n "$MY_SECRET" && echo had it', env: { MY_SECRET: `${CANARY}-task` }, context: { note: `${CANARY}-context` } });
		assert.equal(task.stdout, 'had it\n');
		await cloche.get('POST', '/environments', { name: 'sealed' });
		assert.equal((await cloche.api('PUT', '/environments/sealed/variables/DEEP_SECRET', { value: `${CANARY}-variable` })).status, 204);
		assert.deepEqual(filesWith(cloche.state, CANARY), []);
	});

	test('are opened for who needs them, after a restart too', async () => {
		const box = await cloche.create({ env: { API_TOKEN: `${CANARY}-kept` } });
		const task = await cloche.get('POST', '/tasks', { instruction: 'printf %s "$MY_SECRET" | wc -c', env: { MY_SECRET: `${CANARY}-later` } });
		cloche.child.kill('SIGTERM');
		await cloche.ended;
		await cloche.serve();
		assert.equal(await cloche.ok(['sandbox', 'exec', box.id, '--', 'sh', '-c', 'printf %s "$API_TOKEN" | wc -c']), `${CANARY.length + 5}\n`);
		const again = await cloche.get('POST', `/tasks/${task.task.id}/runs`, {}, WAIT);
		assert.equal(again.task.stdout.trim(), String(CANARY.length + 6));
	});

	test('are in no output, error, address, event or result', async () => {
		const token = 'ghp_0123456789abcdefghijABCDEFGHIJ';
		const instruction = [
			'printf "%s" "$MY_SECRET" | cut -c1-9 | tr -d "\\n"; sleep 0.3; printf "%s\\n" "$MY_SECRET" | cut -c10-',
			`printf ghp_0123; sleep 0.3; echo 456789abcdefghijABCDEFGHIJ`,
			'echo "git clone https://me:$MY_SECRET@example.org/x" >&2',
			`echo "{\\"seen\\": [\\"$MY_SECRET\\", {\\"url\\": \\"https://u:p4ssw0rd@example.org/?access_token=0123456789abcdef\\"}]}" > /tmp/body`,
			'cloche task output --help > /dev/null 2>&1; exit 3',
		].join('\n');
		const task = await run({ instruction, env: { MY_SECRET: `${CANARY}-said` } });
		const events = await cloche.get('GET', `/tasks/${task.id}/events?limit=500`);
		const logs = await cloche.api('GET', `/tasks/${task.id}/logs`);
		for (const [what, text] of Object.entries({ task: JSON.stringify({ ...task, instruction: '', title: '' }), events: JSON.stringify(events), logs: String(logs.bytes) })) {
			assert.ok(!text.includes(CANARY), `${what}: ${text}`);
			assert.ok(!text.includes(token), what);
		}
		assert.match(task.stdout, /^\[REDACTED\]\n\[REDACTED\]\n/);
		assert.match(task.stderr, /https:\/\/\[REDACTED\]@example\.org/);
	});

	test('are taken out of a result that is given', async () => {
		const started = await cloche.get('POST', '/tasks/run', { instruction: 'sleep 30', env: { MY_SECRET: `${CANARY}-given` } });
		const { id } = started.task;
		assert.equal((await cloche.api('PUT', `/tasks/${id}/output`, { output: { a: [`x ${CANARY}-given y`, { b: 'https://u:p4ssw0rd@example.org/?token=0123456789abcdef' }], [`${CANARY}-given`]: { [`k ${CANARY}-given`]: 1 }, n: 1 } })).status, 204);
		const { output } = await cloche.get('GET', `/tasks/${id}/output`);
		assert.deepEqual(output, { a: ['x [REDACTED] y', { b: 'https://[REDACTED]@example.org/?token=[REDACTED]' }], '[REDACTED]': { 'k [REDACTED]': 1 }, n: 1 });
		await cloche.get('POST', `/tasks/${id}/stop`, {});
		assert.deepEqual(filesWith(path.join(cloche.state, 'store'), CANARY), []);
	});
});
