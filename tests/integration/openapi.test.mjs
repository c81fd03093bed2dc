// The OpenAPI document: it parses, resolves, covers every route, and answers agree with it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

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
});
