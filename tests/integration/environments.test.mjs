// Environments: named network policies as resources, their variables, and what a sandbox keeps of one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, withDaemon } from './lib.mjs';

/** Every file below a folder that holds the text; disks of sandboxes, which hold what they wrote, are no part. */
function grep(folder, text) {
	const found = [];
	for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
		const full = path.join(folder, entry.name);
		if (entry.isDirectory()) found.push(...grep(full, text));
		else if (entry.isFile() && fs.statSync(full).size < 2 ** 26 && fs.readFileSync(full).includes(text)) found.push(full);
	}
	return found;
}

describe('environments', () => {
	const cloche = withDaemon({ before, after }, { config: '[sandboxes.default]\npool = 0\n[environments.office]\nallowed_domains = ["intra.example"]\nallowed_cidrs = ["10.0.0.0/8"]\n' });

	test('the built-in ones and those of config.toml are there and do not change', async () => {
		const { items } = await cloche.get('GET', '/environments');
		assert.deepEqual(items.map((one) => [one.name, one.origin, one.level]), [
			['none', 'built-in', 'none'],
			['trusted', 'built-in', 'trusted'],
			['full', 'built-in', 'full'],
			['office', 'config', 'custom'],
		]);
		const [none, trusted, full, office] = items;
		assert.deepEqual(none.effectiveDomains, []);
		assert.ok(trusted.effectiveDomains.includes('*.debian.org'));
		assert.equal(full.effectiveDomains, null);
		assert.equal(full.ports, null);
		assert.deepEqual(office.allowedCidrs, ['10.0.0.0/8']);
		assert.equal(new Set(items.map((one) => one.fingerprint)).size, 4);
		for (const name of ['trusted', 'office']) {
			assert.equal((await cloche.api('PATCH', `/environments/${name}`, { level: 'full' })).status, 409);
			assert.equal((await cloche.api('DELETE', `/environments/${name}`)).status, 409);
			assert.equal((await cloche.api('PUT', `/environments/${name}/variables/A`, { value: 'x' })).status, 409);
			assert.equal((await cloche.api('POST', '/environments', { name })).status, 409);
		}
	});

	test('made, listed, changed, removed', async () => {
		const made = await cloche.get('POST', '/environments', {
			name: 'work',
			allowedDomains: ['Example.ORG.', '*.bücher.example', 'example.org'],
			deniedDomains: ['bad.example.org'],
			ports: [8443, 443],
			allowedCidrs: ['192.168.7.0/24'],
			egressBytes: '1G',
		});
		assert.match(made.id, /^en_/);
		assert.deepEqual(made.allowedDomains, ['example.org', '*.xn--bcher-kva.example']);
		assert.deepEqual(made.ports, [443, 8443]);
		assert.equal(made.egressBytes, 2 ** 30);
		assert.equal(made.egressRate, null);
		assert.equal(made.visibility, 'private');
		assert.equal(made.mode, 'enforce');
		assert.equal((await cloche.api('POST', '/environments', { name: 'work' })).status, 409);
		const changed = await cloche.get('PATCH', '/environments/work', { allowedDomains: null, ports: [] });
		assert.equal(changed.allowedDomains, null, 'null is no limit');
		assert.deepEqual(changed.ports, [], '[] is nothing');
		assert.deepEqual(changed.deniedDomains, ['bad.example.org']);
		assert.notEqual(changed.fingerprint, made.fingerprint);
		const empty = await cloche.get('PATCH', '/environments/work', { allowedDomains: [], ports: null });
		assert.deepEqual(empty.allowedDomains, []);
		assert.equal(empty.ports, null);
		assert.equal((await cloche.get('GET', `/environments/${made.id}`)).name, 'work');
		assert.ok((await cloche.get('GET', '/environments?limit=1')).items.some((one) => one.name === 'work'));
		assert.equal((await cloche.api('DELETE', '/environments/work')).status, 204);
		const missing = await cloche.api('GET', '/environments/ful');
		assert.equal(missing.status, 404);
		assert.match(missing.body.detail, /did you mean 'full'/);
		const kinds = (await cloche.get('GET', '/events?limit=1000')).items.map((one) => one.kind);
		for (const kind of ['environment.created', 'environment.changed', 'environment.removed']) assert.ok(kinds.includes(kind), kind);
	});

	const wrong = [
		[{ allowedDomains: ['ok.example', 'bad', '10.0.0.1', 'a..b', 'fine.example'] }, /allowedDomains: entry 2-4: 'bad'/],
		[{ allowedDomains: ['*.*.example'] }, /allowedDomains: entry 1: .*only once/],
		[{ allowedDomains: ['10.0.0.1'] }, /--allow-cidr/],
		[{ allowedDomains: ['https://example.org'] }, /URL/],
		[{ deniedDomains: ['x'] }, /deniedDomains: entry 1/],
		[
			{ allowedDomains: ['ok.example', 'bad'], deniedDomains: ['x'], ports: [0, 443], allowedCidrs: ['10.0.0.0/8', 'y'], deniedCidrs: ['z'] },
			/^ports: entry 1: .*; allowedDomains: entry 2: 'bad' .*; deniedDomains: entry 1: 'x' .*; allowedCidrs: entry 2: 'y' .*; deniedCidrs: entry 1: 'z' /,
		],
		[{ allowedDomains: Array.from({ length: 100 }, (_, i) => (i % 2 ? 'bad' : `a${i}.example`)), deniedCidrs: ['z'] }, /allowedDomains: entry 2, 4, (\d+, )+98, 100: 'bad' .*; deniedCidrs: entry 1/],
		[{ allowedCidrs: ['10.0.0.0/8', '10.0.0.1/8'] }, /allowedCidrs: entry 2/],
		[{ ports: [443, 0, 70000] }, /ports: entry 2-3/],
		[{ ports: ['443'] }, /'ports' must be a list of whole numbers/],
		[{ level: 'some' }, /'level' is none, trusted, custom or full/],
		[{ mode: 'loud' }, /'mode' is enforce, record or ask/],
		[{ level: 'trusted', allowedDomains: ['a.example'] }, /no meaning under level trusted/],
		[{ visibility: 'public' }, /visibility/],
		[{ egressBytes: 'much' }, /egressBytes/],
		[{ allowedDomains: Array.from({ length: 101 }, (_, i) => `h${i}.example`) }, /101 entries are more than 100/],
		[{ allowedDomain: [] }, /unknown field 'allowedDomain'/],
		[{ name: 'A B' }, /not a name/],
		[{ variables: { LD_PRELOAD: 'x' } }, /LD_PRELOAD.*not possible/],
		[{ variables: { GITHUB_TOKEN: 'x' } }, /GITHUB_TOKEN.*reserved/],
		[{ variables: { CLOCHE_X: 'x' } }, /CLOCHE_X.*reserved/],
		[{ variables: { '1X': 'x' } }, /1X/],
	];
	for (const [body, pattern] of wrong)
		test(`refused: ${JSON.stringify(body).slice(0, 60)}`, async () => {
			const answer = await cloche.api('POST', '/environments', { name: 'wrong', ...body });
			assert.equal(answer.status, 400, String(answer.bytes));
			assert.match(answer.body.detail, pattern);
		});

	test('variables are given to commands and never come back', async () => {
		const secret = 'canary-4f1c9e7a';
		const made = await cloche.get('POST', '/environments', { name: 'vars', level: 'none', variables: { TOKEN: secret, OTHER: 'plain' } });
		assert.deepEqual(made.variables.sort(), ['OTHER', 'TOKEN']);
		const sandbox = await cloche.create({ network: 'vars', env: { OTHER: 'own' } });
		assert.equal((await cloche.exec(sandbox.id, 'echo $TOKEN $OTHER')).stdout, `${secret} own\n`);
		assert.equal((await cloche.api('PUT', '/environments/vars/variables/TOKEN', { value: 'rotated-77' })).status, 204);
		assert.equal((await cloche.exec(sandbox.id, 'echo $TOKEN')).stdout, 'rotated-77\n', 'the next command has the new value');
		assert.equal((await cloche.api('PUT', '/environments/vars/variables/BASH_ENV', { value: 'x' })).status, 400);
		assert.equal((await cloche.api('DELETE', '/environments/vars/variables/NONE')).status, 404);
		assert.equal((await cloche.api('DELETE', '/environments/vars/variables/TOKEN')).status, 204);
		assert.equal((await cloche.exec(sandbox.id, 'echo "[$TOKEN]"')).stdout, '[]\n');
		const all = JSON.stringify([await cloche.get('GET', '/environments'), await cloche.get('GET', '/events?limit=1000'), await cloche.get('GET', `/sandboxes/${sandbox.id}`)]);
		assert.ok(!all.includes(secret) && !all.includes('rotated-77'));
		assert.ok(!cloche.log.includes(secret));
		const files = grep(cloche.state, secret).filter((name) => !name.includes('/out/')); // what the command printed itself
		assert.deepEqual(files, []);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});

	test('a sandbox of an environment that is not there is refused', async () => {
		const answer = await cloche.api('POST', '/sandboxes', { network: 'offic' });
		assert.equal(answer.status, 404);
		assert.match(answer.body.detail, /did you mean 'office'/);
		const bad = await cloche.api('POST', '/sandboxes', { allow: ['a.example', 'b'], allowCidrs: ['c'] });
		assert.equal(bad.status, 400);
		assert.match(bad.body.detail, /allow: entry 2: 'b' .*; allowCidrs: entry 1: 'c'/);
	});
});

describe('environments of teams', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0' });
	const who = {};
	before(async () => {
		await cloche.get('POST', '/teams', { name: 'ops' });
		await cloche.get('POST', '/teams', { name: 'dev' });
		for (const [name, team] of Object.entries({ alice: 'ops', bob: 'ops', dora: 'dev' })) {
			await cloche.get('PUT', `/teams/${team}/members/${name}`, { role: 'member' });
			who[name] = await cloche.as((await cloche.key({ name, team, principal: name })).secret);
		}
	});

	test('a private one is for its maker, when a sandbox is made and when it is started again', async () => {
		const made = await who.alice.expect(201, 'POST', '/environments', { name: 'mine', level: 'none', variables: { KEY: 'alices' } });
		await who.bob.expect(404, 'GET', '/environments/mine');
		await who.bob.expect(404, 'PATCH', `/environments/${made.id}`, { level: 'full' });
		await who.bob.expect(404, 'POST', '/sandboxes', { network: 'mine' });
		await who.dora.expect(404, 'POST', '/sandboxes', { network: made.id });
		assert.ok(!(await who.bob.expect(200, 'GET', '/environments')).items.some((one) => one.name === 'mine'));
		const shared = await who.alice.expect(200, 'PATCH', '/environments/mine', { visibility: 'team' });
		assert.equal(shared.visibility, 'team');
		await who.dora.expect(404, 'GET', `/environments/${made.id}`);
		const sandbox = await who.bob.expect(201, 'POST', '/sandboxes', { network: 'mine' });
		const key = async (code = 200) => (await who.bob.expect(code, 'POST', `/sandboxes/${sandbox.id}/execs`, { shell: 'echo "[$KEY]"' })).stdout;
		assert.equal(await key(), '[alices]\n');
		await who.alice.expect(200, 'PATCH', '/environments/mine', { visibility: 'private' });
		assert.equal(await key(), '[]\n', 'no variable for who may not see it any more');
		await who.bob.expect(200, 'POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 0 });
		await who.bob.expect(404, 'POST', `/sandboxes/${sandbox.id}/start`);
		await who.alice.expect(200, 'PATCH', '/environments/mine', { visibility: 'global' });
		await who.dora.expect(200, 'GET', `/environments/${made.id}`);
		await who.dora.expect(403, 'PATCH', `/environments/${made.id}`, { level: 'full' });
		await who.bob.expect(204, 'DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('names are of a team', async () => {
		await who.alice.expect(201, 'POST', '/environments', { name: 'same', visibility: 'team' });
		await who.dora.expect(201, 'POST', '/environments', { name: 'same', visibility: 'team' });
		await who.bob.expect(409, 'POST', '/environments', { name: 'same' });
	});
});

describe('environments by command line', () => {
	const cloche = withDaemon({ before, after });

	test('create, list, show, set, rm', async () => {
		await cloche.ok(['env', 'create', 'web', '--allow', '*.Example.org', '-a', 'example.net:8443', '--deny', 'bad.example.org', '-p', '443', '-e', 'TOKEN=x1']);
		assert.match(await cloche.ok(['env', 'list']), /web +custom +enforce +api +2 +1/);
		assert.match(await cloche.ok(['env', 'show', 'web']), /allow: +\*\.example\.org\n.*deny: +bad\.example\.org\nvariable: +TOKEN/s);
		await cloche.ok(['env', 'set', 'web', '--drop', '*.example.org', '--allow', 'other.org', '--any-port', '--unset', 'TOKEN', '-e', 'OTHER=2']);
		const web = await cloche.json(['env', 'show', 'web']);
		assert.deepEqual(web.allowedDomains, ['example.net:8443', 'other.org']);
		assert.equal(web.ports, null);
		assert.deepEqual(web.variables, ['OTHER']);
		assert.equal((await cloche.cli(['env', 'set', 'web', '--drop', 'nothing.example'])).code, 66);
		assert.equal((await cloche.cli(['env', 'set', 'web'])).code, 64);
		assert.equal((await cloche.cli(['env', 'set', 'trusted', '--allow', 'a.example'])).code, 73);
		await cloche.ok(['env', 'rm', 'web']);
		assert.equal((await cloche.cli(['env', 'show', 'web'])).code, 66);
		assert.match(await cloche.ok(['env', 'show', 'trusted']), /allow: +\*\.debian\.org/);
	});

	test('what a sandbox may reach is said when it is made and when it runs', async () => {
		const wrong = await cloche.cli(['run', '--allow', '10.0.0.1', '--', 'true']);
		assert.equal(wrong.code, 125);
		assert.match(wrong.stderr, /allow: entry 1: '10\.0\.0\.1' is an address/);
		assert.match((await cloche.cli(['run', '--network', 'trustd', '--', 'true'])).stderr, /did you mean 'trusted'/);
		await cloche.ok(['run', '--network', 'trusted', '--allow', 'example.org', '--allow-cidr', '10.9.0.0/16', '--', 'true']);
		const id = (await cloche.ok(['sandbox', 'create', '--name', 'n', '--allow', 'Example.org', '--network-mode', 'record'])).trim();
		assert.match(await cloche.ok(['sandbox', 'info', id]), /allow: +example\.org\n.*policy: +custom, record, generation 1\nfingerprint: +[0-9a-f]{64}/s);
		assert.match(await cloche.ok(['sandbox', 'net', 'set', 'n', '--mode', 'default', '--clear', '--network', 'full']), /generation: +2/);
		assert.equal((await cloche.get('GET', `/sandboxes/${id}`)).networkPolicy.level, 'full');
		assert.equal(await cloche.ok(['sandbox', 'net', 'n']), '');
		assert.match(await cloche.ok(['sandbox', 'net', 'n', '--hosts']), /^HOST/);
		assert.equal((await cloche.cli(['env', 'learn', 'n', '--name', 'l'])).code, 73);
		assert.match(await cloche.ok(['approval', 'list']), /^ID/);
		assert.equal((await cloche.cli(['approval', 'deny', 'ap_x'])).code, 66);
		await cloche.ok(['sandbox', 'rm', '--force', 'n']);
	});
});

describe('environments of config.toml', () => {
	test('a profile names one; what is wrong is refused with its line', async () => {
		const daemon = new Daemon({ config: '[environments.x]\nallowed_domains = ["a.example", "b"]\n' });
		const result = await daemon.cli(['serve'], { ms: 10000 });
		assert.equal(result.code, 78);
		assert.match(result.stderr, /config\.toml:1: allowedDomains: entry 2: 'b'/);
		daemon.remove();
	});
});
