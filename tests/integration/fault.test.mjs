// A slice of tests/fault: some steps of each loop, chosen by a seed that a failure names.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { clockSteps, fullDisk, noDescriptors, pause } from '../fault/conditions.mjs';
import { random } from '../fault/lib.mjs';
import { crashes, refusals, Report } from '../fault/loops.mjs';
import { model } from '../fault/model.mjs';
import { isRoot } from './lib.mjs';

const seed = Number(process.env.FAULT_SEED ?? 20);

/** Runs a suite quietly; what it found is the failure. */
function slice(name, suite, options) {
	test(name, { skip: !isRoot, timeout: 600000 }, async () => {
		const report = new Report();
		report.isQuiet = true;
		await suite(report, { seed, chance: random(seed), ...options });
		const found = report.failures.map(({ label, error }) => `${label}: ${error.message}`);
		assert.deepEqual(found, [], `seed ${seed}`);
		assert.ok(report.points > 0, 'something was hurt');
	});
}

describe('faults, a slice', { concurrency: false }, () => {
	slice('a process is killed at a step', crashes, { slice: 2, few: 6 });
	slice('a call fails', refusals, { slice: 2, few: 6 });
	slice('no space, and space again', fullDisk);
	slice('no descriptors, and some again', noDescriptors, { rooms: [2], roles: ['cloched', 'cloche:broker'] });
	slice('a daemon stands still', pause, { seconds: 2 });
	slice('the clock is set', clockSteps, { steps: [86400] });
	slice('a process is killed at a step of a task', crashes, { slice: 1, few: 4, of: 'task' });
	slice('random verbs against a model', model, { steps: 250, killEvery: 100 });
});
