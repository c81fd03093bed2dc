// Start latency against the peers a user would choose instead, interleaved in one run so that
// noise of the machine hits all of them alike. Prints a table in markdown.
//
//	node tests/bench/bench.mjs [ROUNDS] [--json FILE]
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

import { Daemon, call, clocheBin, sleep } from '../integration/lib.mjs';

const rounds = Number(process.argv.slice(2).find((arg) => /^\d+$/.test(arg)) ?? 100);
const jsonFile = process.argv.includes('--json') ? process.argv[process.argv.indexOf('--json') + 1] : null;
const idleMs = 30; // back-to-back loops hide what a cold start costs (cgroup attachment above all)

const has = (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;

async function wall(file, args, options = {}) {
	const start = process.hrtime.bigint();
	const child = spawn(file, args, { stdio: 'ignore', ...options });
	const [code] = await once(child, 'exit');
	const ms = Number(process.hrtime.bigint() - start) / 1e6;
	if (code !== 0) throw new Error(`${file} ${args.join(' ')}: status ${code}`);
	return ms;
}

async function timed(fn) {
	const start = process.hrtime.bigint();
	await fn();
	return Number(process.hrtime.bigint() - start) / 1e6;
}

function percentile(sorted, p) {
	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))];
}

// crun wants a bundle: the host's /usr read-only, as in our host image.
function crunBundle(folder) {
	const bundle = path.join(folder, 'bundle');
	for (const name of ['usr', 'proc', 'dev', 'tmp', 'etc']) fs.mkdirSync(path.join(bundle, 'rootfs', name), { recursive: true });
	for (const name of ['bin', 'lib', 'lib64', 'sbin']) fs.symlinkSync(`usr/${name}`, path.join(bundle, 'rootfs', name));
	spawnSync('crun', ['spec'], { cwd: bundle });
	const file = path.join(bundle, 'config.json');
	const spec = JSON.parse(fs.readFileSync(file));
	spec.process.terminal = false;
	spec.process.args = ['/bin/true'];
	delete spec.process.rlimits; // raising them needs a capability that not every machine's root has
	spec.mounts.push({ destination: '/usr', source: '/usr', type: 'bind', options: ['bind', 'ro'] });
	spec.mounts = spec.mounts.filter((mount) => mount.type !== 'cgroup');
	fs.writeFileSync(file, JSON.stringify(spec));
	return bundle;
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-bench-'));
const cloche = await Daemon.start({ config: null }); // as installed, with its pool
const candidates = [{ name: 'plain process: /bin/true', run: () => wall('/bin/true', []) }];
let count = 0;

const box = await cloche.create();
const boxName = box.id;
candidates.push(
	{ name: 'cloche run -- /bin/true', run: () => wall(clocheBin(), ['run', '--', '/bin/true'], { env: cloche.env }) },
	{ name: 'cloche sandbox exec ID -- /bin/true', run: () => wall(clocheBin(), ['sandbox', 'exec', boxName, '--', '/bin/true'], { env: cloche.env }) },
	{ name: 'API: exec in a running sandbox', run: () => timed(() => call(cloche.socket, 'POST', `/api/v1/sandboxes/${boxName}/execs`, { argv: ['/bin/true'] })) },
	{
		name: 'API: create and remove',
		run: () =>
			timed(async () => {
				const { body } = await call(cloche.socket, 'POST', '/api/v1/sandboxes', {});
				await call(cloche.socket, 'DELETE', `/api/v1/sandboxes/${body.id}?force=1`);
			}),
	},
);
if (has('bwrap')) {
	const args = ['--unshare-all', '--ro-bind', '/usr', '/usr', '--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64', '--tmpfs', '/tmp', '--proc', '/proc', '--dev', '/dev', '--die-with-parent', '--new-session', '/bin/true'];
	candidates.push({ name: 'bwrap (no cgroup, no seccomp)', run: () => wall('bwrap', args) });
}
if (has('crun')) {
	const bundle = crunBundle(folder);
	const variants = {
		'crun run, without cgroup': ['--cgroup-manager=disabled'],
		'crun run': [],
	};
	for (const [name, flags] of Object.entries(variants)) {
		const one = () => wall('crun', [`--root=${folder}/crun`, ...flags, 'run', '-b', bundle, `bench-${process.pid}-${count++}`]);
		await one().then(
			() => candidates.push({ name, run: one }),
			(error) => console.error(`left out: ${name}: ${error.message}`),
		);
	}
}

const samples = candidates.map(() => []);
for (const one of candidates) await one.run();
for (let round = 0; round < rounds; round++)
	for (let i = 0; i < candidates.length; i++) {
		const at = (i + round) % candidates.length; // nobody is always second
		await sleep(idleMs);
		samples[at].push(await candidates[at].run());
	}

const results = candidates.map((one, i) => {
	const sorted = samples[i].sort((a, b) => a - b);
	return { name: one.name, median: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) };
});
const ours = results.find((one) => one.name.startsWith('cloche run')).median;
console.log(`${rounds} rounds, interleaved, ${idleMs} ms idle before each; ${os.cpus().length} x ${os.cpus()[0].model}, Linux ${os.release()}\n`);
console.log('| what | median ms | p99 ms | of `cloche run` |');
console.log('|---|---:|---:|---:|');
for (const one of results) console.log(`| ${one.name} | ${one.median.toFixed(2)} | ${one.p99.toFixed(2)} | ${(one.median / ours).toFixed(2)}x |`);
if (jsonFile) fs.writeFileSync(jsonFile, JSON.stringify({ rounds, results }, null, '\t') + '\n');

await cloche.stop();
fs.rmSync(folder, { recursive: true, force: true });
