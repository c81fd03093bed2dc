// What a task may do: the words it needs, the manifest of its agent, and never more than who started it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

const WAIT = { headers: { Prefer: 'wait=60' } };
const CONFIG = `[sandboxes.default]
pool = 1
[capabilities.crm]
network = ["crm.example.org:443", "10.1.0.0/16:5432"]
scopes = ["tasks:read"]
repositories = ["acme/app"]
tools = ["lookup"]
[agents.reviewer]
command = ["/bin/true"]
manifest = "@/reviewer.toml"
[agents.stranger]
command = ["/bin/true"]
manifest = "@/stranger.toml"
`;

describe('what a task may do', () => {
	const folder = fs.mkdtempSync('/tmp/cloche-rights-');
	const file = (name) => path.join(folder, name);
	fs.chmodSync(folder, 0o755);
	fs.writeFileSync(file('reviewer.toml'), 'name = "reviewer"\nruntime = "native"\ncapabilities = ["crm"]\ntools = ["lookup"]\nrepositories = ["acme/app"]\n');
	fs.writeFileSync(file('stranger.toml'), 'name = "stranger"\nruntime = "docker"\ncapabilities = []\n');
	const cloche = withDaemon({ before, after }, { config: CONFIG.replaceAll('@', folder), listen: '127.0.0.1:0' });
	after(() => fs.rmSync(folder, { recursive: true }));

	const ask = (body, options) => cloche.api('POST', '/tasks/run', { instruction: 'true', ...body }, options);
	const done = async (body) => {
		const answer = await ask(body, WAIT);
		assert.ok(answer.status < 300, String(answer.bytes));
		return answer.body.task;
	};
	const refused = async (body, status, pattern) => {
		const answer = await ask(body);
		assert.equal(answer.status, status, String(answer.bytes));
		assert.match(answer.body.detail, pattern);
	};
	const shown = (id) => cloche.get('GET', `/environments/${encodeURIComponent(id)}`);

	test('words are its network, and an environment cannot be more', async () => {
		const web = await shown('capabilities:web_search');
		assert.equal(web.allowedDomains, null);
		assert.deepEqual(web.ports, [80, 443]);
		assert.equal((await shown('capabilities:code_execution')).level, 'none');
		const both = await shown('capabilities:crm,code_execution');
		assert.deepEqual(both.allowedDomains, ['crm.example.org:443']);
		assert.deepEqual(both.allowedCidrs, ['10.1.0.0/16:5432']);
		const script = 'cloche sandbox info $(hostname) -o json 2>/dev/null | grep -c capabilities:';
		assert.equal((await done({ instruction: `${script}; true`, capabilities: ['web_search'] })).status, 'completed');
		await refused({ capabilities: ['code_execution'], environment: 'full' }, 403, /capabilities: '\*' is more network than they grant/);
		await refused({ capabilities: ['code_execution'], extraDomains: ['example.org'] }, 403, /example\.org/);
		await done({ capabilities: ['web_search'], environment: 'none' });
		await refused({ capabilities: ['web_serch'] }, 400, /did you mean 'web_search'/);
		assert.match((await cloche.api('POST', '/sandboxes', { network: 'capabilities:web_serch' })).body.detail, /did you mean 'web_search'/);
	});

	test('words limit scopes, which may be a preset', async () => {
		const task = await done({ capabilities: ['crm'] });
		assert.deepEqual(task.run.scopes.filter((scope) => scope.endsWith(':read')), ['tasks:read', 'llm_gateway:read']);
		const narrow = await done({ scopes: 'read_only' });
		assert.ok(narrow.run.scopes.every((scope) => scope.endsWith(':read') || scope === 'task:write'));
		const again = await cloche.get('POST', `/tasks/${narrow.id}/runs`, {}, WAIT);
		assert.deepEqual(again.task.run.scopes, narrow.run.scopes, 'another run has no more than the first');
	});

	test('a child has no network, repository or tool that its parent has not', async () => {
		const tries = [
			['--capability web_search', /network/],
			['--environment trusted', /network/],
			['--capability crm', /network|repositories|tools/],
		];
		const script = tries.map(([words]) => `cloche task run ${words} true 2>&1`).join('; ');
		const task = await done({ instruction: `${script}; true`, capabilities: ['code_execution'] });
		const lines = task.stdout.trim().split('\n');
		tries.forEach(([words, pattern], i) => assert.match(lines[i], pattern, words));
		const wide = await done({ instruction: 'cloche task run --wait --capability crm true 2>&1; cloche task run --capability web_search true 2>&1; true', capabilities: ['crm'], scopes: 'full' });
		assert.match(wide.stdout, /network: \*:80,443 is not within/);
		assert.ok(!/crm/.test(wide.stdout), wide.stdout);
	});

	test('an agent with a manifest has what it declares, and the runtime its signature is worth', async () => {
		await refused({ agent: 'reviewer', capabilities: ['web_search'] }, 403, /manifest does not declare 'web_search'/);
		const unsigned = await ask({ agent: 'stranger' }, WAIT);
		assert.equal(unsigned.status, 200, 'unsigned: the strongest there is, whatever it asks for');
		await cloche.ok(['agent', 'keygen', file('k')]);
		await cloche.ok(['agent', 'sign', file('stranger.toml'), '--key', file('k')]);
		fs.chmodSync(file('stranger.toml.sig'), 0o644);
		await ask({ agent: 'stranger' }, WAIT);
		await cloche.ok(['agent', 'trust', 'alice', file('k.pub')]);
		await refused({ agent: 'stranger' }, 503, /no runtime 'docker'/); // trusted, so it gets what it asks for
		fs.appendFileSync(file('stranger.toml'), '# changed\n');
		assert.equal((await ask({ agent: 'stranger' }, WAIT)).status, 200, 'tampered: the strongest again');
		fs.writeFileSync(file('stranger.toml'), 'name = ');
		await refused({ agent: 'stranger' }, 503, /stranger\.toml/);
	});

	test('a floor of the team counts for agents, whoever signed them', async () => {
		await cloche.ok(['team', 'create', 'strict', '--trust-floor', 'vm']);
		await cloche.ok(['team', 'member', 'add', 'strict', 'bert', '--role', 'member']);
		const { secret } = await cloche.key({ name: 'in-strict', team: 'strict', principal: 'bert' });
		const caller = await cloche.as(secret);
		for (const agent of ['shell', 'reviewer']) assert.match((await caller.expect(503, 'POST', '/tasks/run', { instruction: 'true', agent })).detail, /'vm'/);
	});

	test('hints', async () => {
		await refused({ agent: 'revewer' }, 400, /did you mean 'reviewer'/);
		await refused({ environment: 'trustd' }, 404, /did you mean 'trusted'/);
		await refused({ profile: 'defalt' }, 404, /did you mean 'default'/);
		await refused({ scopes: ['sandbox:read'] }, 400, /did you mean/);
	});

	test('one Idempotency-Key is one task, at once, with another body and after a restart', async () => {
		const once = (body = {}) => ask({ instruction: 'true', ...body }, { headers: { 'Idempotency-Key': 'same-again' } });
		const answers = await Promise.all(Array.from({ length: 20 }, () => once()));
		const made = answers.filter((one) => one.status < 300);
		assert.equal(new Set(made.map((one) => one.body.task.id)).size, 1);
		assert.ok(answers.every((one) => one.status < 300 || one.status === 409), answers.map((one) => one.status).join(' '));
		assert.equal((await once({ title: 'another' })).status, 409);
		cloche.child.kill('SIGKILL');
		await cloche.ended;
		await cloche.serve();
		assert.equal((await once()).body.task.id, made[0].body.task.id);
	});

	test('of many that ask at once exactly as many are let in as there is money for', async () => {
		const { id, secret } = await cloche.key({ name: 'purse' });
		const caller = await cloche.as(secret);
		await cloche.get('PUT', `/budgets/key/${id}`, { amount: 5 });
		const answers = await Promise.all(Array.from({ length: 60 }, () => caller.api('POST', '/tasks/run', { instruction: 'sleep 60', budget: 1 })));
		const counts = Object.groupBy ? Object.groupBy(answers, (one) => one.status) : answers.reduce((sum, one) => ({ ...sum, [one.status]: [...(sum[one.status] ?? []), one] }), {});
		assert.deepEqual(Object.fromEntries(Object.entries(counts).map(([status, list]) => [status, list.length])), { 202: 5, 402: 55 });
		await caller.expect(204, 'DELETE', `/keys/${id}`);
	});
});
