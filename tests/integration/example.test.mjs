// The examples run as they are shown.
import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, test } from 'node:test';

import { build, repo, run } from './lib.mjs';

const multiturn = async (...args) => {
	const result = await run(process.execPath, [path.join(repo, 'examples/multiturn/run.mjs'), '--build', build, ...args], { ms: 120000 });
	assert.equal(result.code, 0, result.stderr);
	return JSON.parse(result.stdout).steps;
};

describe('examples', () => {
	test('a report in many turns, with a step that depends on what came before', async () => {
		const steps = await multiturn();
		assert.deepEqual(
			steps.map((step) => [step.label, step.attempts]),
			[['discovery', 1], ['research pool-exhausted', 2], ['research slow-query', 1], ['actionability', 1], ['priority', 1], ['presentation', 1]],
		);
		assert.equal(steps[1].output.confidence, 0.8);
		assert.equal(steps[4].output.priority, 'P1');
	});

	test('the same on a day when nobody has to act', async () => {
		const steps = await multiturn('--day', 'quiet');
		assert.deepEqual(steps.map((step) => step.label), ['discovery', 'research cert-warning', 'actionability', 'presentation']);
	});
});
