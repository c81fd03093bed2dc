// The model gateway: models for sandboxes and for callers of the API, with keys that stay outside.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFileSync } from 'node:child_process';

import { Daemon, until } from './lib.mjs';
import { DIALECTS, Model, dataOf, providers } from './lib/model.mjs';

const KEY = `sk-model-${'Vx4'.repeat(9)}-end`;
const WAIT = { headers: { Prefer: 'wait=30' } };
const USAGE = { in: 1000, out: 30, cached: 200 };
const SCRIPT = {
	default: [{ text: 'You said {{prompt}}', usage: USAGE }],
	slow: [{ text: 'word '.repeat(60), usage: USAGE, delayMs: 20 }],
};

describe('the model gateway', () => {
	let model, cloche;

	before(async () => {
		model = await Model.start({ script: SCRIPT, key: KEY });
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY } });
		cloche.configure(
			`[sandboxes.default]\npool = 2\n${providers(
				model.url,
				'secret = "env:CLOCHE_TEST_MODEL_KEY"\ndefault_model = "scripted"\naliases = { fast = "scripted" }\nprices = { scripted = { input = 1.0, output = 4.0, cached = 0.5 } }\n',
			)}`,
		);
		await cloche.serve();
	});

	after(async () => {
		await cloche?.stop();
		await model?.stop();
	});

	/** A run that does this inside. */
	const run = async (instruction, more = {}) => (await cloche.get('POST', '/tasks/run', { instruction, ...more }, WAIT)).task;
	const curl = (dialect, name, stream, prompt, args = '') => {
		const { path: route, body } = DIALECTS[dialect];
		return `curl -sS -N -m 20 ${args} -H 'content-type: application/json' 'http://llm.cloche.internal${route(name, stream)}' -d '${JSON.stringify(body(name, stream, prompt))}'`;
	};

	for (const dialect of Object.keys(DIALECTS)) {
		test(`${dialect}: a run gets answers, whole and in pieces, and every token is counted`, async () => {
			const { text, delta } = DIALECTS[dialect];
			const whole = await run(curl(dialect, 'scripted', false, 'hello'));
			assert.equal(whole.status, 'completed', whole.stderr);
			assert.equal(text(JSON.parse(whole.stdout)), 'You said hello');
			assert.deepEqual([whole.inputTokens, whole.outputTokens, whole.run.cachedTokens], [1000, 30, 200]);
			const streamed = await run(curl(dialect, 'scripted', true, 'hello'));
			assert.equal(dataOf(streamed.stdout).map(delta).join(''), 'You said hello');
			assert.deepEqual([streamed.inputTokens, streamed.outputTokens, streamed.run.cachedTokens], [1000, 30, 200]);
		});
	}
});
