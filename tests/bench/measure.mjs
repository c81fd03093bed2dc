// Runs the timing programs and reduces what they say.
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { build } from '../integration/lib.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
export const program = (name) => path.join(build, 'tests/bench', name);

/** A line of a plan; see candidate.h. settle: what the candidate still does after its answer, in ms, and "/N" for a slow one. */
export const line = (kind, name, settle, ...args) => [kind, name, settle, ...args].join('\t');

async function drive(name, args, plan, env) {
	const child = spawn(path.join(here, 'cgroup-view'), [program(name), ...args], {
		env,
		stdio: ['pipe', 'pipe', 'inherit'],
	});
	let text = '';
	child.stdout.on('data', (part) => (text += part));
	child.stdin.end(`${plan.join('\n')}\n`);
	const [code] = await once(child, 'close');
	if (code !== 0) throw new Error(`${name} ended with ${code}`);
	return text.trim().split('\n').map((one) => JSON.parse(one));
}

/** The value below which a share of the samples lies. */
export function percentile(samples, share) {
	const sorted = [...samples].sort((a, b) => a - b);
	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** {n, median, p99, failures} of samples in any unit. */
export const summary = (samples, failures = 0) => ({
	n: samples.length,
	median: percentile(samples, 0.5),
	p99: percentile(samples, 0.99),
	failures,
});

/** Interleaved latencies in ms: {name: summary}. */
export async function latency(plan, { rounds, warmUp = 5, idleMs = 30, env }) {
	const results = await drive('latency', ['-j', '-n', rounds, '-w', warmUp, '-i', idleMs].map(String), plan, env);
	return Object.fromEntries(
		results.map(({ name, us, failures }) => [name, summary(us.map((one) => one / 1000), failures)]),
	);
}

/** Lives a second of bare walls, see floor.c. */
export async function floor({ workers, seconds }) {
	const [{ count, us, failures }] = await drive('floor', ['-p', workers, '-s', seconds].map(String), []);
	return { rate: (count * 1e6) / us, failures, each: [] };
}

/**
 * One candidate by `workers` that do not pause, for `seconds` or `count` times:
 * {rate, goneRate, failures, each (ms)}. gone: {folder, entries}, see rate.c.
 */
export async function rate(candidate, { workers, seconds, count, gone, env }) {
	const args = ['-p', workers, ...(seconds ? ['-s', seconds] : ['-c', count])];
	if (gone) args.push('-g', gone.folder, '-k', gone.entries);
	const [result] = await drive('rate', args.map(String), [candidate], env);
	return {
		rate: (result.count * 1e6) / result.us,
		goneRate: (result.count * 1e6) / result.goneUs,
		failures: result.failures,
		each: result.each.map((one) => one / 1000),
	};
}
