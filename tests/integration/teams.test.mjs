// Teams: what members see of each other's things, and users of this machine on the socket.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { isRoot, tar, withDaemon } from './lib.mjs';

const CONFIG = `
[sandboxes.default]
pool = 0
[sandboxes.shared]
pool = 0
[sandboxes.ops-only]
pool = 0
visibility = "team"
team = "ops"
[sandboxes.alices]
pool = 0
visibility = "private"
team = "ops"
owner = "alice"
[sandboxes.strong]
pool = 0
trust_floor = "vm"
`;

describe('teams', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0', config: CONFIG });
	const who = {};
	before(async () => {
		for (const team of ['ops', 'dev']) await cloche.get('POST', '/teams', { name: team });
		const people = { alice: ['ops', 'member'], bob: ['ops', 'member'], vera: ['ops', 'viewer'], adam: ['ops', 'admin'], dora: ['dev', 'admin'] };
		for (const [name, [team, role]] of Object.entries(people)) {
			await cloche.get('PUT', `/teams/${team}/members/${name}`, { role });
			who[name] = await cloche.as((await cloche.key({ name, team, principal: name })).secret);
		}
	});

	test('a team default exists, with its operator', async () => {
		const { items } = await cloche.get('GET', '/teams');
		assert.deepEqual(items.map(({ name }) => name), ['default', 'dev', 'ops']);
		const members = await cloche.get('GET', '/teams/default/members');
		assert.deepEqual(members.items.map(({ name, role }) => `${name} ${role}`), ['operator admin']);
		assert.equal((await cloche.api('DELETE', '/teams/default/members/operator')).status, 409);
		assert.equal((await cloche.api('PUT', '/teams/default/members/operator', { role: 'viewer' })).status, 409);
	});

	test('visibility decides who sees and who changes a sandbox', async () => {
		const make = (visibility) => who.alice.expect(201, 'POST', '/sandboxes', { name: `v-${visibility}`, visibility });
		const made = { private: await make('private'), team: await make('team'), global: await make('global') };
		const seen = async (caller) => (await caller.expect(200, 'GET', '/sandboxes')).items.map(({ visibility }) => visibility).toSorted();
		assert.deepEqual(await seen(who.alice), ['global', 'private', 'team']);
		assert.deepEqual(await seen(who.bob), ['global', 'team']);
		assert.deepEqual(await seen(who.vera), ['global', 'team']);
		assert.deepEqual(await seen(who.adam), ['global', 'private', 'team']);
		assert.deepEqual(await seen(who.dora), ['global']);

		await who.bob.expect(404, 'GET', `/sandboxes/${made.private.id}`);
		await who.bob.expect(200, 'POST', `/sandboxes/${made.team.id}/execs`, { argv: ['true'] });
		await who.vera.expect(200, 'GET', `/sandboxes/${made.team.id}`);
		await who.vera.expect(403, 'POST', `/sandboxes/${made.team.id}/execs`, { argv: ['true'] });
		// another team looks at what is global, and does nothing to it
		await who.dora.expect(200, 'GET', `/sandboxes/${made.global.id}`);
		await who.dora.expect(403, 'POST', `/sandboxes/${made.global.id}/execs`, { argv: ['true'] });
		await who.dora.expect(403, 'DELETE', `/sandboxes/${made.global.id}?force=1`);
		await who.dora.expect(404, 'GET', `/sandboxes/${made.team.id}`);

		// who works with it does not decide who sees it; its owner and the admins do
		await who.bob.expect(403, 'PATCH', `/sandboxes/${made.team.id}`, { visibility: 'private' });
		await who.alice.expect(200, 'PATCH', `/sandboxes/${made.team.id}`, { visibility: 'private' });
		await who.bob.expect(404, 'GET', `/sandboxes/${made.team.id}`);
		await who.adam.expect(200, 'PATCH', `/sandboxes/${made.team.id}`, { visibility: 'global' });
		await who.dora.expect(200, 'GET', `/sandboxes/${made.team.id}`);
		for (const { id } of Object.values(made)) await who.adam.expect(204, 'DELETE', `/sandboxes/${id}?force=1`);
	});

	test('names are of a team: nobody learns what others have', async () => {
		const ours = await who.alice.expect(201, 'POST', '/sandboxes', { name: 'build' });
		const theirs = await who.dora.expect(201, 'POST', '/sandboxes', { name: 'build' });
		assert.equal((await who.alice.expect(200, 'GET', '/sandboxes/build')).id, ours.id);
		assert.equal((await who.dora.expect(200, 'GET', '/sandboxes/build')).id, theirs.id);
		assert.equal((await who.dora.expect(200, 'GET', '/sandboxes?name=build')).items.length, 1);
		await who.bob.expect(409, 'POST', '/sandboxes', { name: 'build' });
		const other = await who.dora.expect(201, 'POST', '/sandboxes', { name: 'other' });
		await who.dora.expect(409, 'PATCH', `/sandboxes/${other.id}`, { name: 'build' });
		await who.alice.expect(200, 'PATCH', `/sandboxes/${ours.id}`, { name: 'other' });
		for (const [caller, id] of [[who.alice, ours.id], [who.dora, theirs.id], [who.dora, other.id]]) await caller.expect(204, 'DELETE', `/sandboxes/${id}?force=1`);
	});

	test('events are seen by whoever saw the sandbox, lists and streams alike', async () => {
		const last = (await cloche.get('GET', '/events?limit=1000')).items.at(-1).seq;
		const live = {};
		for (const name of ['bob', 'dora', 'alice']) {
			const response = await who[name].stream('GET', `/events?after=${last}`, { headers: { accept: 'text/event-stream' } });
			live[name] = '';
			response.on('data', (part) => (live[name] += part));
			live[`${name}Response`] = response;
		}
		const hidden = await who.alice.expect(201, 'POST', '/sandboxes', { visibility: 'private' });
		const shared = await who.alice.expect(201, 'POST', '/sandboxes', { visibility: 'team' });
		const foreign = await who.dora.expect(201, 'POST', '/sandboxes', {});
		await who.alice.expect(204, 'DELETE', `/sandboxes/${hidden.id}?force=1`);
		await who.alice.expect(204, 'DELETE', `/sandboxes/${shared.id}?force=1`);
		await who.dora.expect(204, 'DELETE', `/sandboxes/${foreign.id}?force=1`);
		const about = async (caller) => new Set((await caller.expect(200, 'GET', `/events?after=${last}&limit=1000`)).items.map(({ sandbox }) => sandbox));
		assert.deepEqual(await about(who.bob), new Set([shared.id]));
		assert.deepEqual(await about(who.alice), new Set([hidden.id, shared.id]));
		assert.deepEqual(await about(who.dora), new Set([foreign.id]));
		await new Promise((resolve) => setTimeout(resolve, 300));
		assert.ok(live.bob.includes(shared.id) && !live.bob.includes(hidden.id) && !live.bob.includes(foreign.id), live.bob);
		assert.ok(live.alice.includes(hidden.id) && live.alice.includes('sandbox.removed'));
		assert.ok(live.dora.includes(foreign.id) && !live.dora.includes(shared.id));
		for (const name of ['bob', 'dora', 'alice']) live[`${name}Response`].destroy();
	});

	test('profiles may be a team’s, or somebody’s', async () => {
		const names = async (caller) => (await caller.expect(200, 'GET', '/profiles')).items.map(({ name }) => name);
		assert.deepEqual((await names(who.alice)).includes('alices'), true);
		assert.deepEqual((await names(who.bob)).includes('alices'), false);
		assert.deepEqual((await names(who.bob)).includes('ops-only'), true);
		assert.deepEqual((await names(who.dora)).includes('ops-only'), false);
		await who.dora.expect(404, 'GET', '/profiles/ops-only');
		const refused = await who.dora.expect(404, 'POST', '/sandboxes', { profile: 'ops-only' });
		const absent = await who.dora.expect(404, 'POST', '/sandboxes', { profile: 'ops-onli' });
		assert.equal(refused.detail.replace('ops-only', 'X'), absent.detail.replace('ops-onli', 'X'), 'no hint at names of others');
		await who.bob.expect(404, 'POST', '/sandboxes', { profile: 'alices' });
	});

	test('floors: a profile’s and a team’s, which no caller lowers', async () => {
		const strong = await who.alice.expect(503, 'POST', '/sandboxes', { profile: 'strong' });
		assert.match(strong.detail, /'vm'/);
		await who.adam.expect(403, 'PATCH', '/teams/ops', { trustFloor: 'native' });
		assert.equal((await cloche.api('PATCH', '/teams/dev', { trustFloor: 'vmm' })).status, 400);
		await cloche.get('PATCH', '/teams/dev', { trustFloor: 'vm' });
		assert.match((await who.dora.expect(503, 'POST', '/sandboxes', { runtime: 'native' })).detail, /'vm'/);
		await who.dora.expect(403, 'PATCH', '/teams/dev', { trustFloor: null });
		await cloche.get('PATCH', '/teams/dev', { trustFloor: 'native' });
		const made = await who.dora.expect(201, 'POST', '/sandboxes', {});
		await who.dora.expect(204, 'DELETE', `/sandboxes/${made.id}?force=1`);
		await cloche.get('PATCH', '/teams/dev', { trustFloor: null });
	});

	test('a team may make its keys narrow by default', async () => {
		await who.adam.expect(200, 'PATCH', '/teams/ops', { defaultScopes: 'read_only' });
		const key = await who.bob.expect(201, 'POST', '/keys', { name: 'narrow' });
		assert.ok(key.scopes.every((scope) => scope.endsWith(':read')));
		const wide = await who.bob.expect(201, 'POST', '/keys', { name: 'wide', scopes: ['sandboxes:write'] });
		assert.deepEqual(wide.scopes, ['sandboxes:read', 'sandboxes:write']);
		await who.bob.expect(403, 'PATCH', '/teams/ops', { defaultScopes: null });
		assert.match((await who.adam.expect(400, 'PATCH', '/teams/ops', { defaultScopes: ['sandboxs:read'] })).detail, /did you mean/);
		await who.adam.expect(200, 'PATCH', '/teams/ops', { defaultScopes: null });
	});

	test('admins manage their own team and no other', async () => {
		await who.adam.expect(200, 'PUT', '/teams/ops/members/carl', { role: 'member', kind: 'service' });
		const carl = await who.adam.expect(201, 'POST', '/keys', { name: 'carl', principal: 'carl' });
		const caller = await cloche.as(carl.secret);
		await caller.expect(201, 'POST', '/keys', { name: 'own' });
		assert.equal((await who.bob.expect(200, 'GET', '/keys')).items.every(({ principal }) => principal === 'bob'), true);
		await who.bob.expect(404, 'GET', `/keys/${carl.id}`);
		await who.bob.expect(404, 'DELETE', `/keys/${carl.id}`);
		await who.bob.expect(403, 'POST', '/keys', { name: 'x', principal: 'alice' });
		await who.bob.expect(403, 'PUT', '/teams/ops/members/bob', { role: 'admin' });
		await who.dora.expect(404, 'GET', '/teams/ops');
		await who.dora.expect(404, 'GET', `/keys/${carl.id}`);
		await who.dora.expect(404, 'PUT', '/teams/ops/members/dora', { role: 'admin' });
		await who.dora.expect(404, 'POST', '/keys', { name: 'x', team: 'ops' });
		await who.adam.expect(403, 'PUT', '/teams/ops/members/carl', { role: 'member', uid: 4711 });
		await who.adam.expect(403, 'POST', '/teams', { name: 'mine' });
		// who leaves, leaves with the keys
		await who.adam.expect(204, 'DELETE', '/teams/ops/members/carl');
		await caller.expect(401, 'GET', '/me');
		await who.adam.expect(404, 'DELETE', '/teams/ops/members/carl');
		// a changed role counts at once, for keys that are there
		const vera = await who.vera.expect(200, 'GET', '/me');
		assert.equal(vera.role, 'viewer');
		await who.adam.expect(200, 'PUT', '/teams/ops/members/vera', { role: 'member' });
		assert.equal((await who.vera.expect(200, 'GET', '/me')).role, 'member');
		await who.adam.expect(200, 'PUT', '/teams/ops/members/vera', { role: 'viewer' });
	});

	test('the same Idempotency-Key of somebody else is another key', async () => {
		const headers = { 'idempotency-key': 'the-same' };
		const one = await who.alice.expect(201, 'POST', '/sandboxes', {}, { headers });
		const two = await who.dora.expect(201, 'POST', '/sandboxes', {}, { headers });
		assert.notEqual(one.id, two.id);
		assert.equal((await who.alice.expect(201, 'POST', '/sandboxes', {}, { headers })).id, one.id);
		await who.alice.expect(204, 'DELETE', `/sandboxes/${one.id}?force=1`);
		await who.dora.expect(204, 'DELETE', `/sandboxes/${two.id}?force=1`);
	});

	test('attaching with hands needs the right to write', async () => {
		const sandbox = await who.alice.expect(201, 'POST', '/sandboxes', {});
		const exec = await who.alice.expect(201, 'POST', `/sandboxes/${sandbox.id}/execs`, { shell: 'sleep 60', background: true });
		const path = `/sandboxes/${sandbox.id}/execs/${exec.id}/attach`;
		await assert.rejects(who.vera.attach(path), { status: 403 });
		const looking = await who.vera.attach(`${path}?readonly=1`);
		looking.socket.destroy();
		await who.alice.expect(204, 'DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('images: all use them, their team removes them', async () => {
		const archive = tar([{ name: 'etc/motd', content: 'hello' }]);
		const image = await who.alice.expect(201, 'POST', '/images?name=ours&format=tar', archive, { headers: { 'content-type': 'application/octet-stream' } });
		await who.dora.expect(200, 'GET', `/images/${image.id}`);
		await who.dora.expect(403, 'DELETE', `/images/${image.id}`);
		await who.vera.expect(403, 'DELETE', `/images/${image.id}`);
		await who.bob.expect(204, 'DELETE', `/images/${image.id}`);
	});

	const other = 47123;
	const asUser = (args, env = {}) =>
		cloche.cli(args, { uid: other, gid: fs.statSync(cloche.socket).gid, env: { ...cloche.env, ...env } });
	test('a user of this machine is refused on the socket until mapped', { skip: !isRoot && 'needs root' }, async () => {
		const refused = await asUser(['-o', 'json', 'sandbox', 'list']);
		assert.equal(refused.code, 77, refused.stderr);
		assert.match(refused.stderr, /does not serve your user/);
		await cloche.get('PUT', '/teams/ops/members/udo', { role: 'viewer', uid: other });
		const listed = await asUser(['-o', 'json', 'sandbox', 'list']);
		assert.equal(listed.code, 0, listed.stderr);
		const run = await asUser(['run', '--', 'true']);
		assert.match(run.stderr, /sandboxes:write/);
		await cloche.get('PUT', '/teams/dev/members/udo', { role: 'member' });
		assert.equal((await cloche.api('PUT', '/teams/dev/members/second', { role: 'viewer', uid: other })).status, 409, 'a user is one principal');
		assert.equal((await cloche.api('PUT', '/teams/dev/members/rooty', { role: 'viewer', uid: 0 })).status, 400);
		await cloche.get('DELETE', '/teams/ops/members/udo');
		await cloche.get('DELETE', '/teams/dev/members/udo');
		assert.equal((await asUser(['sandbox', 'list'])).code, 77);
	});

	test('root on the socket is the operator', async () => {
		const me = await cloche.get('GET', '/me');
		assert.equal(me.operator, true);
		assert.equal(me.credential, null);
		assert.match(me.source, /^uid \d+$/);
		// with a key in hand it is what the key says
		const key = await cloche.key({ name: 'narrow', scopes: ['sandboxes:read'] });
		const answer = await cloche.api('POST', '/sandboxes', {}, { headers: { authorization: `Bearer ${key.secret}` } });
		assert.equal(answer.status, 403);
	});
});
