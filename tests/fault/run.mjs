// tools/fault: runs everything under tests/fault, prints counts, fails when something was not as
// it must be. node tests/fault/run.mjs [--only TEXT] [--suite NAME] [--seed N] [--slice N] [--part K/N] [--of TEXT] [--jobs N [--record FILE]]
// --jobs: in pieces, N at a time; those that FILE has are done. --of: of the operations that have TEXT in their name, as task. --part: of the loops of crashes and refusals every N-th, from the K-th on; all N are the whole.
import { parseArgs } from 'node:util';

import { crashes, refusals, Report } from './loops.mjs';
import { clockSteps, fullDisk, noDescriptors, pause } from './conditions.mjs';
import { runAll } from './jobs.mjs';
import { model } from './model.mjs';
import { endOnSignal, random } from './lib.mjs';

const { values } = parseArgs({
	options: { only: { type: 'string' }, suite: { type: 'string' }, seed: { type: 'string' }, slice: { type: 'string' }, part: { type: 'string' }, steps: { type: 'string' }, of: { type: 'string' }, jobs: { type: 'string' }, record: { type: 'string' } },
});
const seed = Number(values.seed ?? Date.now() % 100000);
const options = { chance: random(seed), only: values.only, of: values.of, slice: values.slice && Number(values.slice), seed };
if (values.part) {
	const [, index, count] = /^(\d+)\/(\d+)$/.exec(values.part) ?? [];
	if (!(index >= 1 && index <= Number(count))) throw new Error(`--part is K/N, as 3/10, not ${values.part}`);
	options.part = { index: index - 1, count: Number(count) };
}
if (values.steps) options.steps = Number(values.steps);
const suites = { crashes, refusals, 'disk full': fullDisk, descriptors: noDescriptors, pause, clock: clockSteps, model };

if (values.jobs) {
	const parts = ['only', 'of', 'slice', 'steps', 'part'].filter((name) => values[name]);
	if (!/^[1-9]\d*$/.test(values.jobs)) throw new Error(`--jobs is how many at a time, not ${values.jobs}`);
	if (values.part) throw new Error('--jobs makes parts itself: leave --part out');
	if (values.record && parts.length) throw new Error(`--record is for whole pieces, which --${parts[0]} does not run`);
	const names = Object.keys(suites).filter((name) => !values.suite || values.suite === name);
	const others = ['only', 'seed', 'slice', 'of', 'steps'].flatMap((name) => (values[name] ? [`--${name}`, values[name]] : []));
	const isRight = await runAll(names, { jobs: Number(values.jobs), record: values.record, others });
	process.exit(isRight ? 0 : 1);
}

endOnSignal();
console.log(`seed ${seed}`);
const report = new Report();
for (const [name, suite] of Object.entries(suites)) {
	if (values.suite && values.suite !== name) continue;
	const before = report.points;
	await suite(report, options);
	console.log(`== ${name}: ${report.points - before} points`);
}
for (const { label, error } of report.failures) console.log(`FAILED ${label}\n${error.stack.split('\n').slice(-24).join('\n')}\n`);
console.log(`${report.points} points, ${report.failures.length} failed, seed ${seed}`);
process.exit(report.failures.length ? 1 : 0);
