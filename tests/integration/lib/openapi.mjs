// A client made from the OpenAPI document alone: one function per operation, answers checked against
// the schema the document promises for their status and type.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import { call } from './http.mjs';

const require = createRequire(import.meta.url);

/** The document with its $refs as JSON Schema 2020-12 wants them. */
export function compile(document) {
	const { default: Ajv2020 } = require('ajv/dist/2020.js');
	const { default: addFormats } = require('ajv-formats');
	const ajv = new Ajv2020({ strict: false, allErrors: true });
	addFormats(ajv);
	ajv.addSchema(document, 'openapi');
	return (pointer) => ajv.getSchema(`openapi#${pointer}`) ?? ajv.compile({ $ref: `openapi#${pointer}` });
}

const escape = (part) => part.replaceAll('~', '~0').replaceAll('/', '~1');

/** {operationId: ({path and query parameters, body, headers}) => {status, body, bytes}} */
export function makeClient(document, where, headers = {}) {
	const validate = compile(document);
	const client = {};
	for (const [path, item] of Object.entries(document.paths))
		for (const [method, operation] of Object.entries(item))
			client[operation.operationId] = async ({ body, headers: more, ...parameters } = {}) => {
				let target = path;
				const query = new URLSearchParams();
				for (const { name, in: place, required } of operation.parameters) {
					assert.ok(!required || name in parameters, `${operation.operationId} needs ${name}`);
					if (place === 'path') target = target.replace(`{${name}}`, encodeURIComponent(parameters[name]));
					else if (place === 'query' && name in parameters) query.set(name, parameters[name]);
				}
				const unknown = Object.keys(parameters).filter((name) => !operation.parameters.some((one) => one.name === name));
				assert.deepEqual(unknown, [], `${operation.operationId} has no such parameter`);
				if (body !== undefined && operation.requestBody?.content['application/json']) {
					const check = validate(`/paths/${escape(path)}/${method}/requestBody/content/application~1json/schema`);
					assert.ok(check(body), `the body of ${operation.operationId}: ${JSON.stringify(check.errors)}`);
				}
				const answer = await call(where, method.toUpperCase(), query.size ? `${target}?${query}` : target, body, { headers: { ...headers, ...more } });
				const promised = operation.responses[answer.status] ? String(answer.status) : 'default';
				const content = operation.responses[promised].content ?? {};
				const type = (answer.headers['content-type'] ?? '').split(';')[0];
				if (answer.bytes.length) assert.ok(type in content, `${operation.operationId} answers ${type} with ${answer.status}: ${answer.bytes}`);
				if (/[/+]json$/.test(type)) {
					const check = validate(`/paths/${escape(path)}/${method}/responses/${promised}/content/${escape(type)}/schema`);
					assert.ok(check(answer.body), `${operation.operationId} ${answer.status}: ${JSON.stringify(check.errors)} in ${answer.bytes}`);
				}
				return answer;
			};
	return client;
}
