// Keys, teams, agents and the record by command line.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

describe('identity by command line', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0' });

	test('whoami', async () => {
		assert.match(await cloche.ok(['whoami']), /operator: +of this machine/);
		assert.equal((await cloche.json(['whoami'])).operator, true);
	});

	test('a key is made, shown once, listed, rotated and revoked', async () => {
		const made = await cloche.cli(['key', 'create', 'ci', '--scope', 'sandboxes:write,logs:read', '--expires', '30d']);
		assert.equal(made.code, 0, made.stderr);
		assert.match(made.stdout, /^sk_live_\w+\n$/, 'the secret alone, to be caught');
		assert.match(made.stderr, /not shown again/);
		const [key] = await cloche.json(['key', 'list']);
		assert.deepEqual(key.scopes, ['sandboxes:read', 'sandboxes:write', 'logs:read']);
		assert.match(await cloche.ok(['key', 'list']), /ci +operator +default +sandboxes:\* logs:read/);
		const caller = await cloche.as(made.stdout.trim());
		await caller.expect(200, 'GET', '/sandboxes');
		const turned = await cloche.ok(['key', 'rotate', 'ci']);
		await caller.expect(401, 'GET', '/sandboxes');
		await (await cloche.as(turned.trim())).expect(200, 'GET', '/sandboxes');
		await cloche.ok(['key', 'revoke', 'ci']);
		assert.deepEqual(await cloche.json(['key', 'list']), []);
		assert.equal((await cloche.json(['key', 'list', '--all'])).length, 1);
		assert.equal((await cloche.cli(['key', 'revoke', 'ci'])).code, 66);
		assert.match((await cloche.cli(['key', 'create', 'x', '--scope', 'sandbox:read'])).stderr, /did you mean 'sandboxes:read'/);
	});

	test('two keys of one name are told apart by id', async () => {
		const ids = [];
		for (let i = 0; i < 2; i++) ids.push((await cloche.json(['key', 'create', 'twin'])).id);
		assert.match((await cloche.cli(['key', 'revoke', 'twin'])).stderr, /several keys/);
		await cloche.ok(['key', 'revoke', ...ids]);
	});

	test('teams and members', async () => {
		await cloche.ok(['team', 'create', 'ops', '--default-scope', 'read_only']);
		await cloche.ok(['team', 'member', 'add', 'ops', 'alice', '--role', 'admin', '--uid', '47199']);
		assert.match(await cloche.ok(['team', 'member', 'list', 'ops']), /alice +admin +person +47199/);
		assert.match(await cloche.ok(['team', 'list']), /ops +tm_\w+ +read_only/);
		const key = await cloche.json(['key', 'create', 'hers', '--team', 'ops', '--for', 'alice']);
		assert.equal(key.principal, 'alice');
		assert.ok(key.scopes.every((scope) => scope.endsWith(':read')));
		await cloche.ok(['team', 'set', 'ops', '--default-scope', 'none', '--trust-floor', 'native']);
		const [ops] = (await cloche.json(['team', 'list'])).filter(({ name }) => name === 'ops');
		assert.deepEqual([ops.defaultScopes, ops.trustFloor], [null, 'native']);
		await cloche.ok(['team', 'member', 'rm', 'ops', 'alice']);
		await (await cloche.as(key.secret)).expect(401, 'GET', '/me');
		assert.equal((await cloche.cli(['team', 'create', 'ops'])).code, 73);
	});

	test('sharing a sandbox', async () => {
		await cloche.ok(['sandbox', 'create', '--name', 'mine', '--visibility', 'private']);
		assert.equal((await cloche.json(['sandbox', 'info', 'mine'])).visibility, 'private');
		await cloche.ok(['sandbox', 'share', 'mine', 'global']);
		assert.equal((await cloche.json(['sandbox', 'info', 'mine'])).visibility, 'global');
		assert.equal((await cloche.cli(['sandbox', 'share', 'mine', 'everybody'])).code, 64);
		await cloche.ok(['sandbox', 'rm', '--force', 'mine']);
	});

	test('a manifest is unsigned, unknown, signed, tampered', async () => {
		const file = (name) => path.join(cloche.folder, name);
		fs.writeFileSync(file('agent.toml'), 'name = "reviewer"\ncapabilities = ["web_search"]\n');
		const trust = async () => (await cloche.json(['agent', 'verify', file('agent.toml')])).trust;
		assert.equal(await trust(), 'unsigned');
		const key = await cloche.ok(['agent', 'keygen', file('key')]);
		assert.equal(fs.statSync(file('key')).mode & 0o777, 0o600);
		assert.equal(fs.readFileSync(file('key.pub'), 'utf8'), key);
		assert.notEqual((await cloche.cli(['agent', 'keygen', file('key')])).code, 0, 'a key is not overwritten');
		await cloche.ok(['agent', 'sign', file('agent.toml'), '--key', file('key')]);
		assert.equal(await trust(), 'unknown');
		await cloche.ok(['agent', 'trust', 'alice', file('key.pub')]);
		assert.equal(await trust(), 'signed');
		assert.match(await cloche.ok(['agent', 'trusted']), /alice +[0-9a-f]{64} +all/);
		fs.appendFileSync(file('agent.toml'), 'tools = ["git"]\n');
		assert.equal(await trust(), 'tampered');
		await cloche.ok(['agent', 'sign', file('agent.toml'), '--key', file('key')]);
		assert.equal(await trust(), 'signed');
		await cloche.ok(['agent', 'distrust', 'alice']);
		assert.equal(await trust(), 'unknown');
		fs.writeFileSync(file('bad.toml'), 'nmae = "x"\n');
		assert.match((await cloche.cli(['agent', 'sign', file('bad.toml'), '--key', file('key')])).stderr, /did you mean 'name'/);
	});

	test('the record is listed, verified and exported', async () => {
		const rows = await cloche.json(['audit', 'list', '-n', '5']);
		assert.equal(rows.length, 5);
		assert.ok(rows[0].seq < rows[4].seq, 'the newest last');
		const [, end] = /end: +(\S+)/.exec(await cloche.ok(['audit', 'verify']));
		await cloche.ok(['audit', 'verify', '--expect', end]);
		assert.equal((await cloche.cli(['audit', 'verify', '--expect', end.replace(/.$/, (last) => (last === '0' ? '1' : '0'))])).code, 74);
		assert.equal((await cloche.cli(['audit', 'verify', '--expect', end.replace(/^\d+/, '99999')])).code, 74);
		assert.equal((await cloche.cli(['audit', 'verify', '--expect', 'x'])).code, 64);
		const lines = (await cloche.ok(['audit', 'export'])).trimEnd().split('\n');
		assert.ok(JSON.parse(lines.at(-1)).seal);
	});
});
