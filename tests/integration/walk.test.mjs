// The walk with curl in docs/keys.md, as it is written there.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { clocheBin, repo, run, withDaemon } from './lib.mjs';

describe('the walk in docs/keys.md', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0' });

	test('goes as it says', async () => {
		const text = fs.readFileSync(path.join(repo, 'docs/keys.md'), 'utf8');
		const [section] = /## A walk with curl[^]*?\n## /.exec(text);
		const lines = [...section.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line);
		assert.ok(lines.length >= 8, `${lines.length} commands`);
		const { host, port } = await cloche.tcp();
		const script = lines.map((line) => `${line.replace('127.0.0.1:7070', `${host}:${port}`)}\necho`).join('\n');
		const env = { ...cloche.env, PATH: `${path.dirname(clocheBin())}:${process.env.PATH}` };
		const { code, stdout, stderr } = await run('bash', ['-e', '-c', script], { env });
		assert.equal(code, 0, stderr);
		assert.match(stdout, /"items":\[\]/);
		assert.match(stdout, /403.*needs the scope sandboxes:write/);
		assert.match(stdout, /"name":"ci-reader".*"scopes":\["sandboxes:read"\].*"secret":"sk_live_/);
		assert.match(stdout, /^401$/m);
		for (const action of ['key_create', 'sandbox_create', 'key_revoke']) assert.match(stdout, new RegExp(`${action} .*(allow|deny)`));
		assert.match(stdout, /^rows: +5$/m);
		assert.ok(!/sk_live/.test(stdout.slice(stdout.indexOf('SEQ'))), 'no secret is on record');
	});
});
