// A slice of tests/fault: some steps of each loop, chosen by a seed that a failure names.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { describe, test } from 'node:test';

import { clockSteps, fullDisk, noDescriptors, pause } from '../fault/conditions.mjs';
import { HurtDaemon, random } from '../fault/lib.mjs';
import { crashes, refusals, Report } from '../fault/loops.mjs';
import { model } from '../fault/model.mjs';
import { isRoot, sleep, until } from './lib.mjs';

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

/** Every process of the host with exactly these arguments, by pid. */
function processesOf(...argv) {
	const wanted = `${argv.join('\0')}\0`;
	return fs.readdirSync('/proc').filter((pid) => {
		try {
			return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1') === wanted;
		} catch {
			return false; // it ended
		}
	});
}

// The start of an agent is on its way while the row of its sandbox is: a daemon that dies between
// leaves an agent in a sandbox that no row knows.
test('an agent whose sandbox never came to the disk is not begun again', { skip: !isRoot, timeout: 600000 }, async () => {
	const daemon = await HurtDaemon.start({ pool: 3 });
	try {
		for (let n = 30; n <= 78; n += 8) {
			const seconds = `3.${process.pid}${n}`;
			const begun = new Set();
			await sleep(500); // for the pool
			await daemon.inject(`kill cloched pwrite64 ${n}`);
			const answer = daemon.ask('POST', '/tasks/run', { instruction: `exec sleep ${seconds}`, labels: { n: String(n) } });
			const watch = setInterval(() => processesOf('sleep', seconds).forEach((pid) => begun.add(pid)), 20);
			await answer;
			await sleep(300);
			await daemon.calm();
			await daemon.recover();
			const over = async () => (await daemon.get('GET', '/tasks?limit=1000')).items.every((task) => ['completed', 'failed', 'cancelled'].includes(task.status));
			await until(over, 'every task ends', 60000);
			clearInterval(watch);
			assert.ok(begun.size <= 1, `killed at pwrite64 ${n}: begun ${begun.size} times`);
		}
	} finally {
		await daemon.discard();
	}
});

// Init looks at signals only when it serves: whoever ended before that must not be forgotten.
test('a spawner that dies while its sandbox gets ready is replaced', { skip: !isRoot, timeout: 120000 }, async () => {
	const daemon = await HurtDaemon.start({});
	try {
		const create = async (n) => {
			await daemon.inject(`kill cloche-init step ${n}`); // its spawner has that name at first
			const made = await daemon.ask('POST', '/sandboxes', {});
			const { seen } = await daemon.calm();
			if (made?.status === 201) assert.equal((await daemon.exec(made.body.id, 'echo usable')).stdout, 'usable\n', `killed at step ${n}`);
			await daemon.clear();
			return seen;
		};
		const seen = await create(1000000);
		for (let n = seen - 25; n <= seen; n++) await create(n);
	} finally {
		await daemon.discard();
	}
});
