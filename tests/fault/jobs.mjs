// Everything under tests/fault in pieces, some side by side: most of a loop is waiting.
// A piece that is in the record is not run again, so that the whole may take several sittings.
import fs from 'node:fs';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('run.mjs', import.meta.url));
/** In how many pieces each suite goes; the others are one. */
const PIECES = { crashes: 60, refusals: 180 };

function pieces(suites) {
	return suites.flatMap((suite) => Array.from({ length: PIECES[suite] ?? 1 }, (_, i) => ({ suite, part: PIECES[suite] && `${i + 1}/${PIECES[suite]}` })));
}

const nameOf = ({ suite, part }) => (part ? `${suite} ${part}` : suite);

const running = new Set();

/** {points, failed, text} of one piece, as run.mjs printed them. */
function runPiece({ suite, part }, others) {
	const args = [PROGRAM, '--suite', suite, ...(part ? ['--part', part] : []), ...others];
	const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
	let text = '';
	child.stdout.on('data', (bytes) => (text += bytes));
	running.add(child);
	return new Promise((resolve) =>
		child.on('close', () => {
			running.delete(child);
			const [, points, failed] = /^(\d+) points, (\d+) failed, seed \d+$/m.exec(text) ?? [0, 0, 1]; // one without a sum has failed
			resolve({ points: Number(points), failed: Number(failed), text });
		}),
	);
}

/** The pieces of an earlier sitting: name → points. */
function readRecord(file) {
	if (!file || !fs.existsSync(file)) return new Map();
	const lines = fs.readFileSync(file, 'utf8').split('\n').filter(Boolean);
	return new Map(lines.map((line) => line.split('\t')).map(([name, points]) => [name, Number(points)]));
}

/** Runs all suites; `jobs` pieces at a time. Whether nothing failed. */
export async function runAll(suites, { jobs, record, others }) {
	const known = readRecord(record);
	const left = pieces(suites).filter((piece) => !known.has(nameOf(piece)));
	let points = [...known.values()].reduce((sum, one) => sum + one, 0);
	let failed = 0;
	if (known.size) console.log(`${known.size} pieces with ${points} points are in ${record}`);
	for (const signal of ['SIGINT', 'SIGTERM'])
		process.once(signal, () => {
			left.length = 0;
			for (const child of running) child.kill(signal);
		});
	const work = async () => {
		for (let piece = left.shift(); piece; piece = left.shift()) {
			const result = await runPiece(piece, others);
			points += result.points;
			failed += result.failed;
			console.log(`${nameOf(piece)}: ${result.points} points, ${result.failed} failed, ${left.length} pieces to go`);
			if (result.failed) console.log(result.text);
			else if (record) fs.appendFileSync(record, `${nameOf(piece)}\t${result.points}\n`);
		}
	};
	await Promise.all(Array.from({ length: jobs }, work));
	console.log(`${points} points, ${failed} failed`);
	return failed === 0;
}
