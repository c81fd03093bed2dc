// The OpenAPI document: it parses, resolves, covers every route, and answers agree with it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { makeClient } from './lib/openapi.mjs';
import { tar, withDaemon } from './lib.mjs';

describe('openapi', () => {
	const cloche = withDaemon({ before, after });
	let document;
	before(async () => {
		document = await cloche.get('GET', '/openapi.json');
	});

	test('is an OpenAPI 3.1 document whose references resolve', () => {
		assert.match(document.openapi, /^3\.1/);
		assert.ok(document.info.title && document.info.version);
		const resolve = (pointer) => pointer.slice(2).split('/').reduce((value, key) => value?.[key], document);
		const walk = (value, place) => {
			if (value === null || typeof value !== 'object') return;
			if (typeof value.$ref === 'string') assert.ok(resolve(value.$ref), `${value.$ref} in ${place}`);
			for (const [key, one] of Object.entries(value)) walk(one, `${place}/${key}`);
		};
		walk(document, '#');
	});

	test('covers every route of the table', () => {
		const table = fs.readFileSync(new URL('../../src/api/routes.def', import.meta.url), 'utf8');
		const routes = [...table.matchAll(/^ROUTE\((\w+),\s*"([^"]+)"/gm)];
		assert.ok(routes.length > 30);
		const base = document.servers?.[0]?.url ?? '';
		for (const [, method, route] of routes) {
			const item = document.paths[route] ?? document.paths[`/api/v1${route}`];
			assert.ok(item?.[method.toLowerCase()], `${method} ${route} (server ${base})`);
		}
		const count = Object.values(document.paths).reduce((sum, item) => sum + Object.keys(item).filter((key) => /^(get|put|post|patch|delete)$/.test(key)).length, 0);
		assert.equal(count, routes.length, 'and nothing else');
	});

	test('every parameter in a path is declared', () => {
		for (const [route, item] of Object.entries(document.paths))
			for (const [method, operation] of Object.entries(item)) {
				if (!/^(get|put|post|patch|delete)$/.test(method)) continue;
				const declared = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((one) => (one.$ref ? one.$ref.split('/').at(-1) : one.name));
				for (const [, name] of route.matchAll(/\{(\w+)\}/g)) assert.ok(declared.includes(name), `${name} of ${method} ${route}`);
				assert.ok(operation.responses, `${method} ${route}`);
			}
	});

	test('answers have the required fields of their schema and no other', async () => {
		const schema = (name) => document.components.schemas[name];
		const check = (value, name) => {
			const { required = [], properties } = schema(name);
			for (const field of required) assert.ok(field in value, `${name}.${field}`);
			for (const field of Object.keys(value)) assert.ok(field in properties || schema(name).additionalProperties, `${name}.${field} is not declared`);
		};
		const sandbox = await cloche.create();
		check(sandbox, 'Sandbox');
		check(sandbox.limits, 'Limits');
		check((await cloche.get('GET', `/sandboxes/${sandbox.id}`)).meters, 'Meters');
		check(await cloche.exec(sandbox.id, 'true'), 'ExecResult');
		const background = await cloche.exec(sandbox.id, 'true', { background: true });
		check(background, 'Exec');
		check((await cloche.get('GET', '/events')).items[0], 'Event');
		check(await cloche.get('GET', '/version'), 'Version');
		check(await cloche.get('GET', '/doctor'), 'Doctor');
		check((await cloche.get('GET', '/profiles')).items[0], 'Profile');
		check((await cloche.get('GET', '/images')).items[0], 'Image');
		check((await cloche.get('GET', `/sandboxes/${sandbox.id}/files/stat?path=/workspace`)), 'FileEntry');
		check((await cloche.api('GET', '/nosuch')).body, 'Problem');
	});

	test('holds against the schema of OpenAPI 3.1', async () => {
		const { Validator } = await import('@seriousme/openapi-schema-validator');
		const result = await new Validator().validate(structuredClone(document));
		assert.ok(result.valid, JSON.stringify(result.errors, null, 1));
	});

	test('says for every operation which scope it needs', () => {
		for (const [path, item] of Object.entries(document.paths))
			for (const [method, { security, operationId }] of Object.entries(item)) {
				assert.ok(Array.isArray(security), `${method} ${path}`);
				assert.ok(security.length === 1 || ['health', 'openapi', 'resource_metadata', 'resource_metadata_mcp'].includes(operationId), `${method} ${path}`);
			}
		assert.equal(document.components.securitySchemes.key.scheme, 'bearer');
	});

	// Whatever a client that knows only the document does is understood, and what it hears is what
	// the document says.
	test('a client made from it alone gets along', async () => {
		const api = makeClient(document, cloche.socket);
		const ok = async (promise, status) => {
			const answer = await promise;
			assert.equal(answer.status, status, String(answer.bytes));
			return answer.body;
		};
		for (const name of ['health', 'version', 'me', 'scopes', 'capabilities', 'profiles', 'doctor', 'metrics', 'events', 'sandbox_list', 'image_list', 'environment_list', 'key_list', 'team_list', 'trusted_list', 'audit_list', 'audit_verify', 'audit_export', 'approval_list', 'task_list', 'usage', 'webhook_list'])
			await ok(api[name](), 200);
		await ok(api.profile({ profile: 'default' }), 200);

		const sandbox = await ok(api.sandbox_create({ body: { name: 'made', labels: { a: 'b' }, limits: { memory: '64M' }, ttl: '1h' } }), 201);
		await ok(api.sandbox_info({ sandbox: 'made' }), 200);
		await ok(api.sandbox_change({ sandbox: 'made', body: { labels: { c: 'd' }, visibility: 'private' } }), 200);
		await ok(api.exec_create({ sandbox: 'made', body: { shell: 'echo out; echo err >&2' } }), 200);
		const exec = await ok(api.exec_create({ sandbox: 'made', body: { argv: ['sleep', '60'], background: true } }), 201);
		await ok(api.exec_list({ sandbox: 'made', running: true }), 200);
		await ok(api.exec_info({ sandbox: 'made', exec: exec.id }), 200);
		await ok(api.exec_kill({ sandbox: 'made', exec: exec.id }), 204);
		await ok(api.file_write({ sandbox: 'made', path: '/workspace/x', body: 'text' }), 204);
		await ok(api.file_read({ sandbox: 'made', path: '/workspace/x' }), 200);
		await ok(api.file_stat({ sandbox: 'made', path: '/workspace/x' }), 200);
		await ok(api.file_list({ sandbox: 'made', path: '/workspace' }), 200);
		await ok(api.file_mkdir({ sandbox: 'made', body: { path: '/workspace/d', parents: true } }), 204);
		await ok(api.archive_read({ sandbox: 'made', path: '/workspace' }), 200);
		await ok(api.network_info({ sandbox: 'made' }), 200);
		await ok(api.sandbox_events({ sandbox: 'made' }), 200);
		await ok(api.sandbox_stop({ sandbox: 'made', body: { graceMs: 0 } }), 200);
		await ok(api.sandbox_remove({ sandbox: sandbox.id, force: true }), 204);
		await ok(api.run_once({ body: { sandbox: {}, exec: { argv: ['true'] } } }), 200);

		const image = await ok(api.image_import({ name: 'made', format: 'tar', body: tar([{ name: 'etc/motd', content: 'x' }]) }), 201);
		await ok(api.image_info({ image: 'made' }), 200);
		await ok(api.image_remove({ image: image.id }), 204);

		await ok(api.environment_create({ body: { name: 'made', allowedDomains: ['example.org'] } }), 201);
		await ok(api.environment_info({ environment: 'made' }), 200);
		await ok(api.environment_remove({ environment: 'made' }), 204);

		await ok(api.team_create({ body: { name: 'made', defaultScopes: 'read_only' } }), 201);
		await ok(api.team_change({ team: 'made', body: { defaultScopes: ['sandboxes:read'], trustFloor: 'native' } }), 200);
		await ok(api.member_set({ team: 'made', member: 'somebody', body: { role: 'member', kind: 'agent' } }), 200);
		await ok(api.member_list({ team: 'made' }), 200);
		const key = await ok(api.key_create({ body: { name: 'made', team: 'made', principal: 'somebody', scopes: 'full', expiresIn: '1h' } }), 201);
		await ok(api.key_info({ key: key.id }), 200);
		await ok(api.key_rotate({ key: key.id }), 200);
		await ok(api.key_revoke({ key: key.id }), 204);
		await ok(api.member_remove({ team: 'made', member: 'somebody' }), 204);
		await ok(api.trusted_add({ body: { name: 'made', publicKey: '0'.repeat(64) } }), 201);
		await ok(api.trusted_remove({ trusted: 'made' }), 204);
		await ok(api.agent_verify({ body: { manifest: 'name = "a"', signature: null } }), 200);

		// errors are as promised, too
		await ok(api.sandbox_info({ sandbox: 'nosuch' }), 404);
		await ok(api.sandbox_create({ body: { name: 'no such name' } }), 400);
		await ok(api.sandbox_info({ sandbox: 'x', headers: { authorization: 'Bearer x' } }), 401);
	});
});
