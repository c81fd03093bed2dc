// Row 7: the same work inside a sandbox and outside. Timed by the same static program where the
// work is done, so that no request is in a sample.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawnSync } from 'node:child_process';

import { program, summary } from './measure.mjs';

// A source that keeps a compiler busy for some tenths of a second, and a repository of 3000 files.
const SETUP = `set -e
mkdir -p work && cd work
{
	printf '#include <stdio.h>\\n#include <stdlib.h>\\n#include <string.h>\\n#include <math.h>\\n'
	i=0
	while [ $i -lt 150 ]; do
		echo "int f$i(int n, const char *s) { int t = $i; for (int j = 0; j < n; j++) { t += s[j] * j; if (t & 8) t ^= (int)strlen(s); else printf(\\"%d\\", t); } return t; }"
		i=$((i + 1))
	done
} > big.c
mkdir repo && cd repo
i=0
while [ $i -lt 100 ]; do
	mkdir d$i
	j=0
	while [ $j -lt 30 ]; do echo "file $i $j" > d$i/f$j; j=$((j + 1)); done
	i=$((i + 1))
done
git init -q .
git add .
git -c user.name=bench -c user.email=bench@localhost commit -q -m all
git status --porcelain
`;

const TASKS = [
	{ name: 'compile', goal: 1.05, rounds: 15, argv: ['1', 'cc', '-O1', '-c', 'work/big.c', '-o', 'work/big.o'] },
	{ name: '`git status`, 3000 files', goal: 1.05, rounds: 15, argv: ['5', 'git', '-C', 'work/repo', 'status', '--porcelain'] },
	{ name: '1000 × fork+exec', goal: 1.1, rounds: 10, argv: ['1000', '/bin/true'] },
];

async function prepareInside(daemon) {
	const { id } = await daemon.create({ allow: ['example.org'] }); // with a policy on
	const where = '/workspace/work-timer';
	await daemon.get('PUT', `/sandboxes/${id}/files?path=${where}&mode=755`, fs.readFileSync(program('work')));
	const made = await daemon.exec(id, ['/bin/sh', '-c', SETUP], { cwd: '/workspace' });
	if (made.exitCode !== 0) throw new Error(`work inside: ${made.stderr}`);
	return {
		id,
		async time(argv) {
			const { stdout, exitCode, stderr } = await daemon.exec(id, [where, ...argv], { cwd: '/workspace' });
			if (exitCode !== 0) throw new Error(`inside: ${stderr}`);
			return Number(stdout) / 1000;
		},
	};
}

function prepareOutside(folder) {
	const run = (file, args) => spawnSync(file, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
	const made = run('/bin/sh', ['-c', SETUP]);
	if (made.status !== 0) throw new Error(`work outside: ${made.stderr}`);
	return {
		time(argv) {
			const { stdout, status, stderr } = run(program('work'), argv);
			if (status !== 0) throw new Error(`outside: ${stderr}`);
			return Number(stdout) / 1000;
		},
	};
}

export async function work(daemon) {
	const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-bench-work-'));
	const rows = [];
	try {
		const inside = await prepareInside(daemon);
		const outside = prepareOutside(folder);
		for (const { name, argv, goal, rounds } of TASKS) {
			const samples = [[], []];
			for (let round = -1; round < rounds; round++)
				for (const turn of [0, 1]) {
					const which = (turn + round + 2) % 2;
					const took = await [inside, outside][which].time(argv);
					if (round >= 0) samples[which].push(took);
				}
			const [ours, theirs] = samples.map((one) => summary(one));
			rows.push({ row: 7, what: `${name} inside`, unit: 'ms', ours, peer: 'native', theirs, goal: { most: goal } });
		}
		await daemon.get('DELETE', `/sandboxes/${inside.id}?force=true`);
	} finally {
		fs.rmSync(folder, { recursive: true, force: true });
	}
	return rows;
}
