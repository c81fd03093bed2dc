// The documents say what is there: commands, files, promises and their tests.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { repo } from './lib.mjs';

const read = (name) => fs.readFileSync(path.join(repo, name), 'utf8');
const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', ...fs.readdirSync(path.join(repo, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
const topics = fs.readdirSync(path.join(repo, 'tests/confine')).filter((name) => name.endsWith('.c') && name !== 'main.c');

describe('documents', () => {
	for (const name of documents)
		test(`${name}: links and paths lead somewhere`, () => {
			const text = read(name);
			for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)) assert.ok(fs.existsSync(path.join(repo, path.dirname(name), target)), target);
			for (const [, file] of text.matchAll(/`((?:src|tests|tools|docs)\/[\w./-]*\w)`/g)) assert.ok(fs.existsSync(path.join(repo, file)), file);
			for (const [, file] of text.matchAll(/`(\w+\.test\.mjs)`/g)) assert.ok(fs.existsSync(path.join(repo, 'tests/integration', file)), file);
		});

	test('every command shown exists, with its options', () => {
		const words = [...read('src/cli/commands.def').matchAll(/^(?:COMMAND|ALIAS)\("([^"]+)"/gm)].map((match) => match[1]);
		const sources = fs.readdirSync(path.join(repo, 'src/cli')).map((name) => read(`src/cli/${name}`)).join('\n');
		const options = new Set([...sources.matchAll(/[{(]"([a-z-]+)",[\s\\]+(?:'(\w)'|0),/g)].flatMap((match) => [`--${match[1]}`, match[2] && `-${match[2]}`]));
		for (const name of documents)
			for (const [block] of read(name).matchAll(/```console\n[^]*?```/g))
				for (const [, line] of block.matchAll(/(?:^\$ (?:.*\| )?|\$\()(?:sudo )?cloche ([^\n#|)]*)/gm)) {
					const own = line.split(/ -- /)[0].replace(/'[^']*'/g, "''");
					const parts = own.trim().split(/\s+/).filter(Boolean);
					const flags = parts.filter((part) => /^-/.test(part) && part !== '-');
					for (const flag of flags) assert.ok(options.has(flag.split('=')[0]), `${name}: ${flag} in cloche ${line}`);
					const nouns = parts.filter((part, i) => !/^-/.test(part) && !/^-o$/.test(parts[i - 1] ?? ''));
					assert.ok(words.some((word) => nouns.join(' ').startsWith(word)), `${name}: cloche ${line}`);
				}
	});

	test('every verb of the Makefile that is shown exists', () => {
		const verbs = [...read('Makefile').matchAll(/^([a-z-]+):/gm)].map((match) => match[1]);
		for (const name of documents) for (const [, verb] of read(name).matchAll(/`make ([a-z-]+)/g)) assert.ok(verbs.includes(verb), `${name}: make ${verb}`);
	});

	test('each command is in cli.md, each key in configuration.md, each route in api.md', () => {
		const cli = read('docs/cli.md');
		for (const [, words] of read('src/cli/commands.def').matchAll(/^COMMAND\("([^"]+)"/gm)) assert.ok(cli.includes(`cloche ${words}`), words);
		const configuration = read('docs/configuration.md');
		for (const [, key] of read('src/model/config.def').matchAll(/_KEY\("(\w+)"/g)) assert.ok(configuration.includes(`\`${key}\``), key);
		for (const [, key] of read('src/model/limits.def').matchAll(/^LIMIT\(\w+,\s*"(\w+)"/gm)) assert.ok(configuration.includes(`\`${key}\``), key);
		const codes = [...read('src/base/errors.def').matchAll(/^ERROR\(\w+,\s*"(\w+)"/gm)].map((match) => match[1]);
		const api = read('docs/api.md');
		for (const [, route] of read('src/api/routes.def').matchAll(/^ROUTE\(\w+,\s*"([^"]+)"/gm)) {
			const word = route.split('/').filter((part) => part && !part.startsWith('{')).at(-1);
			assert.ok(api.includes(`/${word}`), route);
		}
		for (const code of codes.filter((one) => one !== 'ok')) assert.ok(api.includes(`\`${code}\``), code);
	});

	test('the include table is the one that lint enforces', () => {
		const allowed = new Map([...read('tools/check-layers').matchAll(/^    "(\w+)": "([^"]*)",$/gm)].map((match) => [match[1], match[2].split(' ').filter(Boolean)]));
		for (const [, folder, names] of read('tools/check-layers').matchAll(/\("(\w+)", "([^"]+)"\):/g)) allowed.get(folder).push(names);
		const shown = new Map([...read('ARCHITECTURE.md').matchAll(/^\| `src\/(\w+)` \|.*\| ([^|]*) ?\|$/gm)].map((match) => [match[1], match[2].split(',').map((one) => one.trim()).filter(Boolean)]));
		assert.deepEqual([...shown.keys()].sort(), [...allowed.keys()].sort());
		for (const [folder, names] of allowed) assert.deepEqual([...shown.get(folder)].sort(), [...names].sort(), folder);
	});

	test('each promise names a test, each attempt belongs to a promise', () => {
		const model = read('docs/threat-model.md');
		const promises = model.split(/^### /m).slice(1);
		assert.equal(promises.length, 10);
		for (const promise of promises) {
			assert.match(promise, /tests\/(confine|unit)\/\w+\.c|\w+\.test\.mjs/, promise.slice(0, 40));
		}
		for (const topic of topics) {
			assert.ok(model.includes(`tests/confine/${topic}`), topic);
			for (const [, id] of read(`tests/confine/${topic}`).matchAll(/^\t+\{"([A-Z]\d+)",/gm)) assert.match(model, new RegExp(`\\b${id}\\b`), `${id} of ${topic}`);
		}
	});
});
