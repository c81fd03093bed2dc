// Where the programs under test are. CLOCHE_BUILD selects a build directory.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const repo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const build = path.resolve(process.env.CLOCHE_BUILD ?? path.join(repo, 'build'));

function program(...names) {
	for (const name of names) {
		const file = path.join(build, name);
		if (fs.existsSync(file)) return file;
	}
	throw new Error(`no ${names[0]} in ${build}: build first, or set CLOCHE_BUILD`);
}

export const clocheBin = () => program('cloche', 'src/cloche');
export const clochedBin = () => program('cloched', 'src/cloched');
export const probeBin = () => program('tests/confine/probe');
