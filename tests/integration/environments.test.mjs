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
		const bad = await cloche.api('POST', '/sandboxes', { allow: ['a.example', 'b'] });
		assert.equal(bad.status, 400);
		assert.match(bad.body.detail, /allow: entry 2: 'b'/);
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
