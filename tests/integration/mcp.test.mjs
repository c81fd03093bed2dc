// MCP at /mcp and on stdio: both eras of the protocol, who sees which tools, streams that go on.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { call, events, stream } from './lib/http.mjs';
import { until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n';
const BOTH = { accept: 'application/json, text/event-stream' };
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };

/** A client with a handshake. */
class Client {
	static async open(where, { version = '2025-11-25', headers = {} } = {}) {
		const client = new Client();
		Object.assign(client, { where, headers: { ...BOTH, ...headers }, id: 0 });
		const answer = await client.post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 'test', version: '1' } } });
		assert.equal(answer.status, 200, String(answer.bytes));
		client.hello = answer.body.result;
		client.headers['mcp-session-id'] = answer.headers['mcp-session-id'];
		client.headers['mcp-protocol-version'] = client.hello.protocolVersion;
		assert.equal((await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202);
		return client;
	}

	post(message, headers = {}) {
		return call(this.where, 'POST', '/mcp', message, { headers: { ...this.headers, ...headers } });
	}

	/** {messages, answer}: what came before the answer, and it. */
	async ask(method, params, headers) {
		const answer = await this.post({ jsonrpc: '2.0', id: ++this.id, method, ...(params ? { params } : {}) }, headers);
		if (!/event-stream/.test(answer.headers['content-type'])) return { status: answer.status, headers: answer.headers, messages: [], answer: answer.body };
		const messages = String(answer.bytes)
			.split('\n')
			.filter((line) => /^data: ./.test(line))
			.map((line) => JSON.parse(line.slice(6)));
		return { status: answer.status, headers: answer.headers, messages: messages.slice(0, -1), answer: messages.at(-1) };
	}

	async tool(name, args = {}, meta) {
		const { answer } = await this.ask('tools/call', { name, arguments: args, ...(meta ? { _meta: meta } : {}) });
		assert.ok(answer.result, JSON.stringify(answer));
		return answer.result;
	}

	async tools() {
		return (await this.ask('tools/list')).answer.result.tools;
	}
}

describe('MCP', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0', config: CONFIG });
	let tcp, key;
	const bearer = (secret) => ({ authorization: `Bearer ${secret}` });

	before(async () => {
		tcp = await cloche.tcp();
		key = (await cloche.key({ name: 'mcp', operator: true })).secret;
	});

	test('handshakes of every revision that has one', async () => {
		for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
			const client = await Client.open(cloche.socket, { version });
			assert.equal(client.hello.protocolVersion, version);
			assert.equal(client.hello.serverInfo.name, 'cloche');
			assert.deepEqual((await client.ask('ping')).answer.result, {});
			const gone = await client.ask('resources/list');
			assert.deepEqual([gone.status, gone.answer.error.code], [200, -32601]);
		}
		assert.equal((await Client.open(cloche.socket, { version: '2999-01-01' })).hello.protocolVersion, '2025-11-25');
	});

	test('a session is one caller\'s, and ends', async () => {
		const client = await Client.open(tcp, { headers: bearer(key) });
		const other = (await cloche.key({ name: 'other', operator: true })).secret;
		const ping = { jsonrpc: '2.0', id: 9, method: 'ping' };
		assert.equal((await client.post(ping)).status, 200);
		assert.equal((await client.post(ping, bearer(other))).status, 404);
		assert.equal((await call(tcp, 'POST', '/mcp', ping, { headers: { ...BOTH, ...bearer(key) } })).status, 400);
		assert.equal((await client.post(ping, { 'mcp-protocol-version': '1999-01-01' })).status, 400);
		assert.equal((await call(tcp, 'DELETE', '/mcp', undefined, { headers: client.headers })).status, 204);
		assert.equal((await client.post(ping)).status, 404);
	});

	test('strangers hear where keys come from, other pages nothing', async () => {
		const hello = { jsonrpc: '2.0', id: 0, method: 'initialize', params: {} };
		const answer = await call(tcp, 'POST', '/mcp', hello, { headers: BOTH });
		assert.equal(answer.status, 401);
		const [, where] = /resource_metadata="([^"]+)"/.exec(answer.headers['www-authenticate']);
		assert.match(where, /^http:\/\/.*\/\.well-known\/oauth-protected-resource\/mcp$/);
		for (const at of [new URL(where).pathname, '/.well-known/oauth-protected-resource']) {
			const { status, body } = await call(tcp, 'GET', at);
			assert.equal(status, 200);
			assert.ok(body.resource.endsWith('/mcp') && body.scopes_supported.includes('tasks:write'));
		}
		for (const headers of [{ origin: 'https://evil.example.org' }, { host: 'evil.example.org' }])
			assert.equal((await call(tcp, 'POST', '/mcp', hello, { headers: { ...BOTH, ...bearer(key), ...headers } })).status, 403);
		assert.equal((await call(tcp, 'POST', `/mcp?access_token=${key}`, hello, { headers: BOTH })).status, 401);
	});

	test('bytes that are no message', async () => {
		const client = await Client.open(cloche.socket);
		for (const [body, code] of [
			['{', -32700],
			['[]', -32600],
			['{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600],
			['{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602],
		]) {
			const answer = await client.post(body);
			assert.deepEqual([answer.status, answer.body.error.code], [400, code], body);
		}
		assert.equal((await client.post('x'.repeat(2 << 20))).status, 413);
	});

	test('who may not write sees no tool that writes; nobody gets around it', async () => {
		const all = (await (await Client.open(tcp, { headers: bearer(key) })).tools()).map((tool) => tool.name);
		assert.ok(['runTask', 'getTask', 'waitTask', 'stopTask', 'startSession', 'sendTurn', 'endSession', 'sandboxExec', 'readFile', 'writeFile', 'listEnvironments', 'usage'].every((name) => all.includes(name)));
		const reader = await Client.open(tcp, { headers: bearer((await cloche.key({ name: 'reader', scopes: 'read_only' })).secret) });
		const seen = await reader.tools();
		assert.ok(seen.length > 5 && seen.every((tool) => tool.annotations.readOnlyHint));
		assert.ok(seen.some((tool) => tool.name === 'getTask') && !seen.some((tool) => tool.name === 'runTask'));
		const refused = await reader.ask('tools/call', { name: 'runTask', arguments: { instruction: 'true' } });
		assert.equal(refused.status, 403);
		assert.match(refused.headers['www-authenticate'], /error="insufficient_scope".*scope="tasks:write"/);
		assert.match(refused.answer.error.message, /tasks:write/);
		const { items } = await cloche.get('GET', '/audit?newest=1&limit=20');
		assert.ok(items.some((row) => row.action === 'task_run' && row.verdict === 'deny' && row.rule === 'tasks:write'), 'on record');
		const unknown = await reader.ask('tools/call', { name: 'nosuch' });
		assert.equal(unknown.answer.error.code, -32602);
	});

	test('schemas are those of the API, and whole', async () => {
		const { default: Ajv } = await import('ajv/dist/2020.js');
		for (const tool of await (await Client.open(cloche.socket)).tools()) {
			const check = new Ajv({ strict: false }).compile(tool.inputSchema);
			assert.ok(!check({ nosuchmember: 1 }), tool.name);
		}
	});

	test('a sandbox, its commands and files', async () => {
		const client = await Client.open(tcp, { headers: bearer(key) });
		const sandbox = (await client.tool('createSandbox', { name: 'mcp' })).structuredContent;
		assert.equal(sandbox.state, 'running');
		const at = { sandbox: sandbox.id };
		assert.equal((await client.tool('writeFile', { ...at, path: '/workspace/a b', content: 'grüße\n' })).content[0].text, 'done');
		assert.equal((await client.tool('readFile', { ...at, path: '/workspace/a b' })).content[0].text, 'grüße\n');
		await client.tool('writeFile', { ...at, path: '/workspace/bin', contentBase64: Buffer.from([0, 255, 1]).toString('base64') });
		const { resource } = (await client.tool('readFile', { ...at, path: '/workspace/bin' })).content[0];
		assert.deepEqual([...Buffer.from(resource.blob, 'base64')], [0, 255, 1]);
		const ran = (await client.tool('sandboxExec', { ...at, shell: 'ls /workspace; exit 3' })).structuredContent;
		assert.deepEqual([ran.exitCode, ran.stdout], [3, 'a b\nbin\n']);
		const long = await client.tool('sandboxExec', { ...at, shell: 'head -c 400000 /dev/zero | tr "\\0" x > /workspace/long' });
		assert.ok(!long.isError);
		const cut = await client.tool('readFile', { ...at, path: '/workspace/long' });
		assert.match(cut.content[1].text, /There is more/);
		for (const bad of [{ sandbox: 'nosuch' }, { sandbox: `${sandbox.id}/stop` }, { sandbox: '' }, {}, { ...at, pth: '/x' }, { ...at, path: {} }])
			assert.ok((await client.tool('readFile', { path: '/x', ...bad })).isError, JSON.stringify(bad));
		assert.match((await client.tool('readFile', { ...at, pth: '/x' })).content[0].text, /did you mean 'path'/);
		assert.ok(!(await client.tool('removeSandbox', { ...at, force: true })).isError);
		const { items } = await cloche.get('GET', '/audit?newest=1&limit=50');
		assert.ok(items.some((row) => row.action === 'exec_create' && row.object === sandbox.id), 'as by REST, on record');
	});

	test('runTask answers at once; progress and the end for who waits', async () => {
		const client = await Client.open(cloche.socket);
		const { task } = (await client.tool('runTask', { instruction: 'sleep 2; echo done' })).structuredContent;
		assert.ok(['pending', 'running'].includes(task.status), 'at once');
		const waited = await client.ask('tools/call', { name: 'waitTask', arguments: { task: task.id }, _meta: { progressToken: 'tok' } });
		assert.equal(waited.answer.result.structuredContent.task.stdout, 'done\n');
		const progress = waited.messages.filter((one) => one.method === 'notifications/progress').map((one) => one.params);
		assert.ok(progress.length > 3 && progress.every((one, n) => one.progressToken === 'tok' && one.progress === n + 1));
		assert.ok(progress.some((one) => /provision/.test(one.message)));
		const both = await client.ask('tools/call', { name: 'runTask', arguments: { instruction: 'echo both', waitSeconds: 30 }, _meta: { progressToken: 7 } });
		assert.equal(both.answer.result.structuredContent.task.stdout, 'both\n');
		assert.ok(both.messages.some((one) => one.params.progressToken === 7));
		const late = await client.tool('waitTask', { task: 'x', waitSeconds: 60 });
		assert.match(late.content[0].text, /45/);
		const slow = (await client.tool('runTask', { instruction: 'sleep 60' })).structuredContent.task;
		const short = (await client.tool('waitTask', { task: slow.id, waitSeconds: 1 })).structuredContent.task;
		assert.equal(short.completedAt, null);
		await client.tool('stopTask', { task: slow.id, reason: 'enough' });
		await until(async () => (await client.tool('getTask', { task: slow.id })).structuredContent.task.status === 'cancelled', 'it is stopped');
	});

	test('a stream that broke goes on where it was', async () => {
		const client = await Client.open(cloche.socket);
		const body = JSON.stringify({ jsonrpc: '2.0', id: 'long', method: 'tools/call', params: { name: 'runTask', arguments: { instruction: 'sleep 1; echo late', waitSeconds: 30 }, _meta: { progressToken: 1 } } });
		const response = await stream(cloche.socket, 'POST', '/mcp', { headers: { ...client.headers, 'content-type': 'application/json' }, body });
		const iterator = events(response);
		const first = (await iterator.next()).value;
		assert.match(first.id, /^\d+-0$/);
		const second = (await iterator.next()).value;
		response.destroy();
		const rest = await stream(cloche.socket, 'GET', '/mcp', { headers: { ...client.headers, accept: 'text/event-stream', 'last-event-id': second.id } });
		assert.equal(rest.statusCode, 200);
		const got = [];
		for await (const event of events(rest)) got.push(JSON.parse(event.data));
		assert.equal(got.at(-1).id, 'long');
		assert.equal(got.at(-1).result.structuredContent.task.stdout, 'late\n');
		assert.deepEqual(got.slice(0, -1).map((one) => one.params.progress), got.slice(0, -1).map((_, n) => n + 2), 'nothing twice, nothing missing');
		const nothing = await call(cloche.socket, 'GET', '/mcp', undefined, { headers: { ...client.headers, 'last-event-id': '99-1' } });
		assert.equal(nothing.status, 404);
	});

	test('cancelled is not waited for', async () => {
		const client = await Client.open(cloche.socket);
		const pending = client.post({ jsonrpc: '2.0', id: 'c', method: 'tools/call', params: { name: 'runTask', arguments: { instruction: 'sleep 30', waitSeconds: 40 } } });
		const { id } = await until(async () => (await cloche.get('GET', '/tasks?state=running')).items.find((task) => task.instruction === 'sleep 30'), 'it runs');
		assert.equal((await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c' } })).status, 202);
		assert.ok(!/"id":"c"/.test(String((await pending).bytes)), 'no answer to what was cancelled');
		await cloche.get('POST', `/tasks/${id}/stop`, {});
	});

	test('arguments with long foreign names are refused by name', async () => {
		const client = await Client.open(cloche.socket);
		for (const name of ['ü'.repeat(200), `x${'ü'.repeat(200)}`, `xx${'😀'.repeat(100)}`, '\u0001'.repeat(300)])
			for (const value of [{}, 'text']) {
				const refused = await client.tool('readFile', { sandbox: 'nosuch', path: '/x', [name]: value });
				assert.ok(refused.isError && refused.content[0].text.length > 0, name);
			}
	});

	test('a task that is told at length is waited for as any other', async () => {
		const client = await Client.open(cloche.socket);
		const { answer } = await client.ask('tools/call', { name: 'runTask', arguments: { instruction: `echo ended # ${'\u0001'.repeat(50000)}`, waitSeconds: 30 } });
		assert.match(answer.result.content.at(-1).text, /There is more/);
		assert.ok(!answer.result.isError);
		const [, id] = /"id":"([^"]+)"/.exec(answer.result.content[0].text);
		assert.equal((await cloche.get('GET', `/tasks/${id}`)).task.status, 'completed');
	});

	test('a key that ends ends the calls made with it', async () => {
		const made = await cloche.key({ name: 'short', operator: true });
		const client = await Client.open(tcp, { headers: bearer(made.secret) });
		const pending = client.tool('runTask', { instruction: 'sleep 31', waitSeconds: 40 }).catch((error) => error);
		const { id } = await until(async () => (await cloche.get('GET', '/tasks?state=running')).items.find((task) => task.instruction === 'sleep 31'), 'it runs');
		await cloche.get('DELETE', `/keys/${made.id}`);
		await pending;
		await cloche.get('POST', `/tasks/${id}/stop`, {});
		assert.equal((await call(tcp, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' }, { headers: client.headers })).status, 401);
	});

	test('streams on which nothing is said are over when the client leaves', async () => {
		const client = await Client.open(cloche.socket);
		const listen = () => stream(cloche.socket, 'GET', '/mcp', { headers: { ...client.headers, accept: 'text/event-stream' } });
		const open = await Promise.all(Array.from({ length: 32 }, listen));
		assert.ok(open.every((one) => one.statusCode === 200));
		const more = await client.ask('tools/call', { name: 'usage', arguments: {} });
		assert.equal(more.status, 429);
		assert.match(more.answer.error.message, /under way/);
		const refused = await listen();
		assert.equal(refused.statusCode, 429);
		for (const one of [...open, refused]) one.destroy();
		await until(async () => (await client.ask('tools/call', { name: 'usage', arguments: {} })).status === 200, 'there is room again');
	});

	test('without a session, who leaves waits no longer', async () => {
		const params = { name: 'runTask', arguments: { instruction: 'sleep 32', waitSeconds: 40 }, _meta: META };
		const leave = http.request({ socketPath: cloche.socket, method: 'POST', path: '/mcp', headers: { 'content-type': 'application/json', accept: 'application/json', 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'runTask' } });
		leave.on('error', () => {});
		leave.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }));
		const { id } = await until(async () => (await cloche.get('GET', '/tasks?state=running')).items.find((task) => task.instruction === 'sleep 32'), 'it runs');
		leave.destroy();
		await cloche.get('POST', `/tasks/${id}/stop`, {});
		await until(async () => (await cloche.get('GET', `/tasks/${id}`)).task.status === 'cancelled', 'it is stopped');
	});

	test('the era without sessions', async () => {
		const ask = (method, params = {}, headers = {}) =>
			call(cloche.socket, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: { ...META, ...params._meta } } }, { headers: { ...BOTH, 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(params.name ? { 'mcp-name': params.name } : {}), ...headers } });
		const found = (await ask('server/discover')).body.result;
		assert.ok(found.supportedVersions.includes('2026-07-28') && found.supportedVersions.includes('2025-11-25'));
		assert.equal(found._meta['io.modelcontextprotocol/serverInfo'].name, 'cloche');
		const list = await ask('tools/list');
		assert.equal(list.headers['mcp-session-id'], undefined);
		assert.deepEqual([list.body.result.resultType, list.body.result.ttlMs, list.body.result.cacheScope], ['complete', 0, 'private']);
		const usage = (await ask('tools/call', { name: 'usage', arguments: {} })).body.result;
		assert.deepEqual([usage.resultType, usage.isError], ['complete', false]);
		const ran = await ask('tools/call', { name: 'runTask', arguments: { instruction: 'echo modern', waitSeconds: 30 }, _meta: { progressToken: 1 } });
		assert.match(String(ran.bytes), /notifications\/progress[^]*modern/);
		for (const [method, headers, params, status, code] of [
			['initialize', {}, {}, 404, -32601],
			['ping', {}, {}, 404, -32601],
			['tools/list', { 'mcp-method': 'ping' }, {}, 400, -32020],
			['tools/call', { 'mcp-name': 'getTask' }, { name: 'usage' }, 400, -32020],
			['tools/list', { 'mcp-protocol-version': '2025-11-25' }, {}, 400, -32020],
			['tools/list', { 'mcp-protocol-version': '2099-01-01' }, { _meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } }, 400, -32022],
			['tools/list', {}, { _meta: { 'io.modelcontextprotocol/clientCapabilities': null } }, 400, -32602],
		]) {
			const answer = await ask(method, params, headers);
			assert.deepEqual([answer.status, answer.body.error.code], [status, code], method);
		}
	});

	test('on stdio, several at once', async () => {
		const lines = [
			{ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {} } },
			{ jsonrpc: '2.0', method: 'notifications/initialized' },
			{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'runTask', arguments: { instruction: 'sleep 1; echo slow', waitSeconds: 30 }, _meta: { progressToken: 'p' } } },
			{ jsonrpc: '2.0', id: 2, method: 'tools/list' },
			{ jsonrpc: '2.0', id: 3, method: 'server/discover', params: { _meta: META } },
		];
		const result = await cloche.cli(['mcp'], { input: `${lines.map((line) => JSON.stringify(line)).join('\n')}\nnot json\n` });
		assert.equal(result.code, 0, result.stderr);
		const got = result.stdout.trim().split('\n').map((line) => JSON.parse(line));
		const of = (id) => got.find((one) => one.id === id);
		assert.equal(of(0).result.protocolVersion, '2025-11-25');
		assert.equal(of(1).result.structuredContent.task.stdout, 'slow\n');
		assert.ok(of(2).result.tools.length > 10);
		assert.ok(of(3).result.supportedVersions);
		assert.equal(of(null).error.code, -32700);
		assert.ok(got.indexOf(of(2)) < got.indexOf(of(1)), 'a quick one does not wait for a slow one');
		assert.ok(got.some((one) => one.method === 'notifications/progress'));
	});

	test('inside a sandbox, with the rights of the run', async () => {
		const ask = `cat > /tmp/in <<'EOF'
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"runTask","arguments":{"instruction":"echo child","waitSeconds":30}}}
EOF
cloche mcp < /tmp/in`;
		const { task } = await cloche.get('POST', '/tasks/run', { instruction: ask }, { headers: { prefer: 'wait=60' } });
		const got = task.stdout.trim().split('\n').map((line) => JSON.parse(line));
		assert.equal(got.find((one) => one.id === 2).result.structuredContent.task.stdout, 'child\n');
		const narrow = (await cloche.get('POST', '/tasks/run', { instruction: ask, scopes: ['tasks:read'] }, { headers: { prefer: 'wait=60' } })).task;
		const seen = narrow.stdout.trim().split('\n').map((line) => JSON.parse(line));
		assert.ok(!seen.find((one) => one.id === 1).result.tools.some((tool) => tool.name === 'runTask'));
		assert.match(seen.find((one) => one.id === 2).error.message, /tasks:write/);
		const url = (await cloche.get('POST', '/tasks/run', { instruction: `curl -sS http://api.cloche.internal/mcp -H 'accept: application/json' -d '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'` }, { headers: { prefer: 'wait=60' } })).task;
		assert.equal(JSON.parse(url.stdout).result.serverInfo.name, 'cloche');
	});
});
