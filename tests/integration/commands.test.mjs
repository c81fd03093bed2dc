// Commands of manifests: one HTTP call and one program, driven by the command line inside a sandbox, by MCP and by
// REST, with the scope and without; what arguments can not do; calls that wait for a person.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { call } from './lib/http.mjs';
import { Daemon, run as runProgram } from './lib/daemon.mjs';
import { isRoot, ordinaryUser } from './lib/host.mjs';
import { clocheBin, repo } from './lib/paths.mjs';
import { until } from './lib.mjs';

const SECRET = `crm-${'Qw8'.repeat(9)}-end`;

const PAGE = fs.readFileSync(path.join(repo, 'docs/commands.md'), 'utf8');

/** A manifest of the page about commands, with what is at other places here. */
const example = (name, port, folder) => {
	const [, text] = new RegExp(`\`commands/${name}\\.toml\`:\n\n\`\`\`toml\n([^]*?)\`\`\``).exec(PAGE);
	return text.replace('https://crm.example.org', `http://127.0.0.1:${port}`).replace('/usr/local/bin/report', `${folder}/report`);
};

/** The lines of the page that call a command, each as one shell command. */
const lines = PAGE.match(/```sh\n[^]*?```/g).flatMap((block) => block.slice(6, -3).replace(/\\\n\s*/g, '').trim().split('\n'));

const manifests = (port, folder) => ({
	'contacts-list.toml': example('contacts-list', port, folder),
	'contacts-add.toml': `
noun = "contacts"
verb = "add"
description = "Add a contact"
scope = "contacts:write"
approval = "ask"
approval_timeout = "60s"
[arguments]
required = ["name"]
[arguments.properties.name]
type = "string"
[arguments.properties.tags]
type = "array"
items = { type = "string" }
[http]
method = "POST"
url = "http://127.0.0.1:${port}/v1/contacts"
body = "json"
headers = ["Authorization: Bearer {secret}"]
secret = "env:CLOCHE_CRM_TOKEN"
`,
	'contacts-remove.toml': `
noun = "contacts"
verb = "remove"
description = "Remove a contact; nobody answers in time"
scope = "contacts:write"
approval = "ask"
approval_timeout = "1s"
[arguments]
required = ["id"]
[arguments.properties.id]
type = "string"
[http]
method = "DELETE"
url = "http://127.0.0.1:${port}/v1/contacts/{id}"
`,
	'contacts-show.toml': `
noun = "contacts"
verb = "show"
description = "Show a contact"
scope = "contacts:read"
[arguments]
required = ["id"]
[arguments.properties.id]
type = "string"
[http]
url = "http://127.0.0.1:${port}/v1/contacts/{id}"
`,
	'report-make.toml': example('report-make', port, folder),
	'report-think.toml': `
noun = "report"
verb = "think"
description = "What a program of the host sees"
scope = "report:read"
timeout = "3s"
output = "1K"
concurrency = 2
[arguments.properties.what]
enum = ["input", "environment", "state", "who", "much", "long", "fail"]
[exec]
argv = ["${folder}/think", "{what}", "${folder}/state"]
stdin = "json"
`,
});

const REPORT = '#!/bin/sh\nfor word; do printf "[%s]" "$word"; done\n';
const THINK = `#!/bin/sh
case "$1" in
input) cat ;;
environment) env | sort ;;
state) ls -la "$2" 2>&1; cat "$2/config.toml" "$2/commands/report-make.toml" 2>&1; ls "$2/.." 2>/dev/null; : ;;
who) id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status; ls /proc/self/fd | wc -l; ls -d /proc/[0-9]* | wc -l; ulimit -c ;;
much) head -c 200000 /dev/zero | tr '\\0' x ;;
long) sleep 30 & sleep 30 ;;
fail) echo out; echo oops >&2; exit 7 ;;
esac
`;

describe('commands', () => {
	let outside, daemon, tcp, calls, keys;

	const write = (name, text) => fs.writeFileSync(path.join(daemon.state, 'commands', name), text, { mode: 0o644 });

	before(async () => {
		calls = [];
		outside = http.createServer((request, response) => {
			let body = '';
			request.on('data', (part) => (body += part));
			request.on('end', () => {
				calls.push({ method: request.method, url: request.url, headers: request.headers, body });
				response.writeHead(request.url.endsWith('/nobody') ? 404 : 200, { 'content-type': 'application/json' });
				response.end(JSON.stringify({ url: request.url, sent: request.headers.authorization ?? null, body }));
			});
		});
		await new Promise((resolve) => outside.listen(0, '127.0.0.1', resolve));
		daemon = new Daemon({ env: { CLOCHE_CRM_TOKEN: SECRET, HOST_CANARY: 'canary-in-the-environment' }, listen: '127.0.0.1:0' });
		daemon.configure('[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n[mcp]\napproval = ["runOnce"]\n');
		fs.mkdirSync(path.join(daemon.state, 'commands'), { mode: 0o755 });
		for (const [name, text] of Object.entries({ report: REPORT, think: THINK })) fs.writeFileSync(path.join(daemon.folder, name), text, { mode: 0o755 });
		for (const [name, text] of Object.entries(manifests(outside.address().port, daemon.folder))) write(name, text);
		await daemon.serve();
		tcp = await daemon.tcp();
		const key = async (name, ...scopes) => (await daemon.key({ name, scopes })).secret;
		keys = {
			reader: await key('reader', 'contacts:read', 'report:read'),
			writer: await key('writer', 'contacts:write', 'approvals:write'),
			person: await key('person', 'approvals:write'),
			other: await key('other', 'tasks:read'),
			runner: await key('runner', 'tasks:write', 'contacts:read', 'sandboxes:write'),
		};
	});

	after(async () => {
		await daemon?.stop();
		await new Promise((resolve) => (outside.closeAllConnections(), outside.close(resolve)));
	});

	const bearer = (secret) => ({ authorization: `Bearer ${secret}` });
	const rest = (secret, noun, verb, args) =>
		call(tcp, 'POST', `/api/v1/commands/${noun}/${verb}`, args === undefined ? {} : { arguments: args }, { headers: bearer(secret) });
	const mcp = async (secret, method, params) => {
		const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
		const answer = await call(tcp, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }, {
			headers: { ...bearer(secret), accept: 'application/json', 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(params?.name ? { 'mcp-name': params.name } : {}) },
		});
		return { status: answer.status, ...answer.body };
	};
	const tool = (secret, name, args) => mcp(secret, 'tools/call', { name, arguments: args });
	/** What a run inside a sandbox says. */
	const inside = async (instruction, scopes) => {
		const { status, body } = await call(tcp, 'POST', '/api/v1/tasks/run', { instruction, agent: 'shell', scopes }, { headers: { ...bearer(keys.runner), prefer: 'wait=60' } });
		assert.ok(status < 300, JSON.stringify(body));
		return body.task;
	};

	test('REST: the call over HTTP, with a credential that stays outside', async () => {
		const { status, body } = await rest(keys.reader, 'contacts', 'list', { query: 'a&b=c/../x', limit: 3 });
		assert.equal(status, 200, JSON.stringify(body));
		assert.deepEqual([body.ok, body.status, body.exitCode], [true, 200, null]);
		assert.equal(body.result.url, '/v1/contacts?q=a%26b%3Dc%2F..%2Fx&limit=3');
		assert.equal(calls.at(-1).headers.authorization, `Bearer ${SECRET}`);
		assert.ok(!JSON.stringify(body).includes(SECRET), 'an upstream that repeats it is not heard');
		assert.match(body.result.sent, /^Bearer \*+$/);
		assert.equal((await rest(keys.reader, 'contacts', 'list')).body.result.url, '/v1/contacts');
		const missing = (await rest(keys.reader, 'contacts', 'show', { id: 'nobody' })).body;
		assert.deepEqual([missing.ok, missing.status], [false, 404]);
	});

	test('REST: the program, word by word', async () => {
		const words = ['a b', '$(id)', '-rf', 'two\nlines', '', "';--"];
		const { status, body } = await rest(keys.reader, 'report', 'make', { title: 'x;y', words, depth: 2 });
		assert.equal(status, 200, JSON.stringify(body));
		assert.deepEqual([body.ok, body.exitCode, body.status], [true, 0, null]);
		assert.equal(body.output, `[--depth=2][x;y][--]${words.map((word) => `[${word}]`).join('')}`);
		const failed = (await rest(keys.reader, 'report', 'think', { what: 'fail' })).body;
		assert.deepEqual([failed.ok, failed.exitCode, failed.output, failed.errors], [false, 7, 'out\n', 'oops\n']);
	});

	test('MCP: the same two, and only for whoever has the scope', async () => {
		const names = async (secret) => (await mcp(secret, 'tools/list')).result.tools.map(({ name }) => name);
		const seen = await names(keys.reader);
		assert.ok(seen.includes('contacts_list') && seen.includes('report_make') && !seen.includes('contacts_add'));
		assert.ok(!(await names(keys.other)).some((name) => /^(contacts|report)_/.test(name)));
		const listed = (await mcp(keys.reader, 'tools/list')).result.tools.find(({ name }) => name === 'contacts_list');
		assert.equal(listed.inputSchema.properties.query.maxLength, 40);
		assert.equal(listed.annotations.readOnlyHint, true);
		const found = await tool(keys.reader, 'contacts_list', { query: 'ada' });
		assert.equal(found.result?.isError, false, JSON.stringify(found));
		assert.equal(found.result.structuredContent.result.url, '/v1/contacts?q=ada');
		assert.equal(JSON.parse(found.result.content[0].text).url, '/v1/contacts?q=ada');
		const made = await tool(keys.reader, 'report_make', { title: 'mcp', words: ['w'] });
		assert.equal(made.result.content[0].text, '[mcp][--][w]');
		const bad = await tool(keys.reader, 'report_make', { titel: 'mcp' });
		assert.equal(bad.result.isError, true);
		assert.equal((await tool(keys.reader, 'report_think', { what: 'fail' })).result.isError, true);
		for (const name of ['contacts_list', 'report_make']) {
			const denied = await tool(keys.other, name, { title: 'x' });
			assert.equal(denied.status, 403);
			assert.match(denied.error.message, /the scope (contacts|report):read/);
		}
	});

	test('what the page about commands says, line by line', async () => {
		const shell = async (line) => {
			const env = { ...daemon.env, PATH: `${path.dirname(clocheBin())}:${process.env.PATH}` };
			const result = await runProgram('/bin/sh', ['-c', line.replace(/^curl/, "curl -s -H 'content-type: application/json'")], { env });
			assert.equal(result.code, 0, `${line}: ${result.stderr}`);
			return result.stdout;
		};
		const said = {};
		for (const [way, pattern] of Object.entries({ line: /^cloche (contacts|report)/, rest: /^curl.*\/commands\//, mcp: /^printf.*cloche mcp/, inside: /^cloche task run/ })) {
			const found = lines.filter((line) => pattern.test(line));
			assert.equal(found.length, way === 'inside' ? 1 : 2, way);
			said[way] = await Promise.all(found.map(shell));
		}
		const url = '/v1/contacts?q=ada&limit=3', report = '[--depth=2][Week][--][a][-b]';
		assert.deepEqual([JSON.parse(said.line[0]).url, said.line[1]], [url, report]);
		assert.deepEqual([JSON.parse(said.rest[0]).result.url, JSON.parse(said.rest[1]).output], [url, report]);
		const results = said.mcp.map((text) => JSON.parse(text.trim().split('\n').at(-1)).result);
		assert.deepEqual([results[0].structuredContent.result.url, results[1].content[0].text], [url, report]);
		assert.ok(said.inside[0].includes('"url":"/v1/contacts?q=ada&limit=3"'), said.inside[0]);
		const without = await inside(/'(cloche contacts.*)'/.exec(lines.find((line) => /^cloche task run/.test(line)))[1], ['tasks:read']);
		assert.match(without.stderr, /this needs the scope contacts:read/);
	});

	test('the command line, outside: options of the schema', async () => {
		assert.equal(await daemon.ok(['report', 'make', '--title', 'hi', '--words', 'a', '--words=-b', '--depth', '4']), '[--depth=4][hi][--][a][-b]');
		assert.equal(JSON.parse(await daemon.ok(['contacts', 'list', '--query', 'x', '--limit', '2'])).url, '/v1/contacts?q=x&limit=2');
		assert.equal((await daemon.json(['contacts', 'list', '--json', '{"query":"j"}'])).result.url, '/v1/contacts?q=j');
		const help = await daemon.ok(['contacts', 'list', '--help']);
		assert.match(help, /List contacts.*contacts:read[\s\S]*--query VALUE[\s\S]*--limit NUMBER[\s\S]*example:\n {2}cloche contacts list/);
		assert.match(await daemon.ok(['contacts']), /contacts list +List contacts/);
		const failed = await daemon.cli(['report', 'think', '--what', 'fail']);
		assert.deepEqual([failed.code, failed.stdout, failed.stderr], [7, 'out\n', 'oops\n']);
		for (const [args, why] of [
			[['contacts', 'list', '--limit', 'many'], /arguments of 'contacts list'.*limit/],
			[['contacts', 'list', '--qurey', 'x'], /unknown option '--qurey' \(did you mean '--query'\?\)/],
			[['contacts', 'lst'], /unknown command/],
			[['../contacts', 'list'], /unknown command/],
			[['contacts', '../list'], /unknown command/],
		]) {
			const refused = await daemon.cli(args);
			assert.ok(refused.code > 0 && why.test(refused.stderr), `${args}: ${refused.code} ${refused.stderr}`);
		}
		assert.match(await daemon.ok(['command', 'list']), /report think +report:read +exec/);
	});

	test('the command line, inside a sandbox: with the scope, and without', async () => {
		const script = 'cloche contacts list --query inside; echo; echo "[$?]"; cloche report make --title t; echo "[$?]"';
		const run = await inside(script, ['contacts:read']);
		const text = JSON.stringify(run);
		assert.match(text, /contacts\?q=inside/, text);
		assert.match(text, /this needs the scope report:read/);
		assert.ok(!text.includes(SECRET) && !text.includes('CRM_TOKEN'));
		const without = JSON.stringify(await inside(script, ['tasks:read']));
		assert.match(without, /this needs the scope contacts:read/);
	});

	test('denied without the scope, and on record without content', async () => {
		for (const [noun, verb, scope] of [['contacts', 'list', 'contacts:read'], ['report', 'make', 'report:read'], ['contacts', 'add', 'contacts:write']]) {
			const { status, body } = await rest(keys.other, noun, verb, { query: 'unseen-words' });
			assert.equal(status, 403);
			assert.match(body.detail, new RegExp(`the scope ${scope},`));
		}
		await rest(keys.reader, 'contacts', 'list', { query: 'unseen-words' });
		const rows = await until(async () => {
			const { items } = await daemon.get('GET', '/audit?limit=1000');
			const found = items.filter(({ action }) => action === 'command_call');
			return ['allow', 'deny'].every((one) => found.some(({ object, rule, verdict }) => object === 'contacts/list' && rule === 'contacts:read' && verdict === one)) ? found : null;
		}, 'both are on record', 30000);
		assert.ok(rows.some(({ object }) => object === 'report/make'));
		const text = JSON.stringify(rows) + JSON.stringify((await daemon.get('GET', '/events?limit=1000')).items);
		assert.ok(!text.includes('unseen-words') && !text.includes(SECRET));
		assert.ok(!daemon.log.includes('unseen-words') && !daemon.log.includes(SECRET));
	});

	test('what arguments can not do', async () => {
		const refused = async (noun, verb, args, why) => {
			const { status, body } = await rest(keys.reader, noun, verb, args);
			assert.deepEqual([status, why.test(body.detail)], [400, true], JSON.stringify(body));
		};
		await refused('report', 'make', { title: '--output=/etc/passwd' }, /'title' must not begin with '-'/);
		await refused('report', 'make', { title: 'a\0b' }, /NUL/);
		await refused('report', 'make', {}, /title/);
		await refused('report', 'make', { title: 'x', more: 1 }, /more/);
		await refused('report', 'make', { title: ['x'] }, /title/);
		await refused('report', 'make', [], /object/);
		await refused('contacts', 'list', { query: 'x'.repeat(41) }, /query/);
		for (const id of ['..', '.', '']) await refused('contacts', 'show', { id }, /path/);
		await refused('contacts', 'show', { id: '../../admin' }, /path|slash/);
		const twice = await call(tcp, 'POST', '/api/v1/commands/contacts/list', Buffer.from('{"arguments":{"query":"a","query":"b"}}'), { headers: { ...bearer(keys.reader), 'content-type': 'application/json' } });
		assert.equal(twice.status, 400);
		const large = await rest(keys.reader, 'report', 'make', { title: 'x', words: Array(9000).fill('0123456789') });
		assert.equal(large.status, 413);
		for (const at of ['/commands/../contacts', '/commands/%2e%2e/list', '/commands/contacts/%2e%2e%2flist', '/commands/nosuch/list'])
			assert.equal((await call(tcp, 'GET', `/api/v1${at}`, undefined, { headers: bearer(keys.reader) })).status, 404, at);
	});

	test('what a program of the host is given, and what not', async () => {
		const think = async (what) => (await rest(keys.reader, 'report', 'think', { what })).body;
		assert.deepEqual(JSON.parse((await think('input')).output), { what: 'input' });
		const environment = (await think('environment')).output;
		assert.ok(!/CRM_TOKEN|CANARY|HOME|CLOCHE/.test(environment), environment);
		const state = await think('state');
		assert.ok(!/config\.toml$|cloche\.sock|pool = 0|noun =/m.test(state.output), state.output);
		const [uid, caps, privileges, files, processes, core] = (await think('who')).output.split('\n');
		if (isRoot) assert.ok(Number(uid) > 1000, uid);
		assert.match(caps, /0000000000000000$/);
		assert.match(privileges, /1$/);
		assert.ok(Number(files) <= 5, `${files} descriptors`);
		assert.ok(Number(processes) < 8, `${processes} processes in sight`);
		assert.equal(core, '0');
		const much = await think('much');
		assert.deepEqual([much.truncated, much.output.length], [true, 1024]);
		const long = await Promise.all([think('long'), think('long'), rest(keys.reader, 'report', 'think', { what: 'long' })]);
		assert.ok(long.slice(0, 2).some(({ timedOut }) => timedOut) , JSON.stringify(long[0]));
		assert.ok([long[2].status, ...long.slice(0, 2).map(({ status }) => status)].includes(429), 'two at once');
	});

	test('approval: held until a person says so, and nobody answers for themselves', async () => {
		const before_ = calls.length;
		const waiting = rest(keys.writer, 'contacts', 'add', { name: 'Ada', tags: ['x'] });
		const [question] = await until(async () => {
			const { items } = await daemon.get('GET', '/approvals');
			return items.length > 0 ? items : null;
		});
		assert.deepEqual([question.kind, question.tool, question.caller, JSON.parse(question.arguments).name], ['tool', 'contacts_add', 'operator', 'Ada']);
		assert.equal(calls.length, before_, 'nothing was sent yet');
		const own = await call(tcp, 'POST', `/api/v1/approvals/${question.id}`, { verdict: 'allow' }, { headers: bearer(keys.writer) });
		assert.deepEqual([own.status, /whoever asks/.test(own.body.detail)], [403, true]);
		assert.match(await daemon.ok(['approval', 'list']), /operator +contacts_add \{.*Ada/);
		await daemon.ok(['approval', 'allow', question.id]);
		assert.deepEqual([(await waiting).status, JSON.parse(calls.at(-1).body)], [200, { name: 'Ada', tags: ['x'] }]);
		const denied = rest(keys.writer, 'contacts', 'add', { name: 'Eve' });
		const second = await until(async () => (await daemon.get('GET', '/approvals')).items[0]);
		await daemon.ok(['approval', 'deny', second.id]);
		assert.deepEqual([(await denied).status, /denied this call/.test((await denied).body.detail)], [403, true]);
		const late = await rest(keys.writer, 'contacts', 'remove', { id: '7' });
		assert.deepEqual([late.status, /nobody allowed/.test(late.body.detail)], [403, true]);
		assert.equal(calls.length, before_ + 1);
		const events = await until(async () => {
			const { items } = await daemon.get('GET', '/events?limit=1000');
			const answered = items.filter(({ kind, data }) => kind.startsWith('approval.') && data.verdict);
			return answered.length === 3 ? answered : null;
		});
		assert.deepEqual(events.map(({ data }) => data.verdict), ['allow', 'deny', 'timeout']);
		assert.ok(!JSON.stringify(events).includes('Ada'));
	});

	test('approval: a key that was made by whoever asks does not answer either', async () => {
		const parent = await daemon.key({ name: 'parent', scopes: ['contacts:write', 'approvals:write', 'keys:write'] });
		const make = await call(tcp, 'POST', '/api/v1/keys', { name: 'child', scopes: ['approvals:write', 'keys:write'] }, { headers: bearer(parent.secret) });
		const below = await call(tcp, 'POST', '/api/v1/keys', { name: 'grandchild', scopes: ['approvals:write'] }, { headers: bearer(make.body.secret) });
		const waiting = rest(parent.secret, 'contacts', 'add', { name: 'Mallory' });
		const question = await until(async () => (await daemon.get('GET', '/approvals')).items[0]);
		for (const { body } of [make, below]) {
			const answer = await call(tcp, 'POST', `/api/v1/approvals/${question.id}`, { verdict: 'allow' }, { headers: bearer(body.secret) });
			assert.deepEqual([answer.status, /whoever asks/.test(answer.body.detail)], [403, true], String(answer.bytes));
		}
		await daemon.ok(['approval', 'deny', question.id]);
		assert.equal((await waiting).status, 403);
	});

	test('approval of a tool of MCP', async () => {
		const secret = (await daemon.key({ name: 'boxes', scopes: ['sandboxes:write'] })).secret;
		const waiting = tool(secret, 'runOnce', { sandbox: {}, exec: { shell: 'echo held' } });
		const question = await until(async () => (await daemon.get('GET', '/approvals')).items[0]);
		assert.equal(question.tool, 'runOnce');
		await daemon.ok(['approval', 'allow', question.id]);
		const answer = await waiting;
		assert.equal(answer.result?.structuredContent?.stdout, 'held\n', JSON.stringify(answer));
		const denied = tool(secret, 'runOnce', { sandbox: {}, exec: { shell: 'echo held' } });
		await daemon.ok(['approval', 'deny', (await until(async () => (await daemon.get('GET', '/approvals')).items[0])).id]);
		assert.deepEqual([(await denied).result.isError, /denied/.test((await denied).result.content[0].text)], [true, true]);
	});

	test('manifests are read strictly, and anew without a restart', async () => {
		const good = fs.readFileSync(path.join(daemon.state, 'commands', 'contacts-show.toml'), 'utf8');
		for (const [text, why] of [
			[good.replace('scope =', 'scop ='), /new\.toml:5: unknown key 'scop' \(did you mean 'scope'\?\)/],
			[good.replace('verb = "show"', 'verb = "Show"'), /new\.toml:3: 'verb' must be/],
			[good.replace('noun = "contacts"', 'noun = "task"'), /noun 'task' is a word of cloche's own/],
			[good.replace('{id}', '{ident}'), /new\.toml:\d+: \{ident\} is no argument/],
			[good.replace('type = "string"', 'type = "strng"'), /new\.toml: \[arguments\]/],
			[good.replace('{id}"', '{id}"\nquery = ["k={secret}"]'), /\{secret\} stands in 'headers' alone/],
			[good + '[exec]\nargv = ["/bin/true"]\n', /either \[http\] or \[exec\]/],
			[good, /both define 'contacts show'/],
			['noun = "x"\nverb = "y"\ndescription = "z"\nscope = "x:read"\n[exec]\nargv = ["sh", "-c", "id"]\n', /absolute path/],
		]) {
			write('new.toml', text);
			const answer = await daemon.cli(['command', 'reload']);
			assert.equal(answer.code, 78, answer.stderr);
			assert.match(answer.stderr, why);
			assert.equal((await rest(keys.reader, 'contacts', 'show', { id: '1' })).status, 200, 'those of before stay');
		}
		write('new.toml', good.replace('"contacts"', '"deals"').replace('contacts:read', 'deals:read'));
		await daemon.ok(['command', 'reload']);
		assert.equal(JSON.parse(await daemon.ok(['deals', 'show', '--id', '4'])).url, '/v1/contacts/4');
		assert.equal((await rest(keys.reader, 'deals', 'show', { id: '1' })).status, 403);
		assert.equal((await call(tcp, 'POST', '/api/v1/commands/reload', undefined, { headers: bearer(keys.reader) })).status, 403);
		// A program is what the manifest said when it was read, or nothing.
		const program = fs.readFileSync(path.join(daemon.state, 'commands', 'report-make.toml'), 'utf8');
		write('report-make.toml', program.replace('report"', 'think"'));
		assert.match((await rest(keys.reader, 'report', 'make', { title: 'x' })).body.detail, /has changed: cloche command reload/);
		write('report-make.toml', program);
		fs.chmodSync(path.join(daemon.state, 'commands', 'report-make.toml'), 0o666);
		assert.match((await rest(keys.reader, 'report', 'make', { title: 'x' })).body.detail, /can be changed by others/);
		fs.chmodSync(path.join(daemon.state, 'commands', 'report-make.toml'), 0o644);
		assert.equal((await rest(keys.reader, 'report', 'make', { title: 'x' })).status, 200);
	});
});

describe('commands without root', { skip: !isRoot && 'needs root to become somebody else' }, () => {
	test('a program is the user\'s, and sees neither the state directory nor other processes', async () => {
		const daemon = new Daemon({ user: ordinaryUser, env: { CLOCHE_CANARY: 'canary' } });
		try {
			const commands = path.join(daemon.state, 'commands');
			fs.mkdirSync(commands, { mode: 0o755 });
			const program = path.join(daemon.folder, 'think');
			fs.writeFileSync(program, THINK, { mode: 0o755 });
			const manifest = manifests(1, daemon.folder)['report-think.toml'].replace(`${daemon.folder}/state`, daemon.state);
			fs.writeFileSync(path.join(commands, 'think.toml'), manifest, { mode: 0o644 });
			for (const file of [commands, path.join(commands, 'think.toml')]) fs.chownSync(file, daemon.user.uid, daemon.user.gid);
			await daemon.serve();
			const think = (what) => daemon.ok(['report', 'think', '--what', what]);
			assert.ok(!/config\.toml$|cloche\.sock|noun =/m.test(await think('state')));
			assert.ok(!/CANARY|CLOCHE/.test(await think('environment')));
			const [, caps, privileges, , processes] = (await think('who')).split('\n');
			assert.match(caps, /0000000000000000$/);
			assert.match(privileges, /1$/);
			assert.ok(Number(processes) < 8, `${processes} processes in sight`);
			await daemon.stop();
		} finally {
			await daemon.discard();
		}
	});
});
