// The model gateway: models for sandboxes and for callers of the API, with keys that stay outside.
import assert from 'node:assert/strict';
import http from 'node:http';
import zlib from 'node:zlib';
import { after, before, describe, test } from 'node:test';
import { execFileSync } from 'node:child_process';

import { Daemon } from './lib.mjs';
import { DIALECTS, Model, dataOf, providers } from './lib/model.mjs';

const KEY = `sk-model-${'Vx4'.repeat(9)}-end`;
const WAIT = { headers: { Prefer: 'wait=30' } };
const USAGE = { in: 1000, out: 30, cached: 200 };
const SCRIPT = {
	default: [{ text: 'You said {{prompt}}', usage: USAGE }],
	costly: [{ text: 'word '.repeat(20), usage: USAGE, delayMs: 20 }],
	dear: [{ text: 'word', usage: { in: 20, out: 100, cached: 0 }, delayMs: 1500 }],
	slow: [{ text: 'word '.repeat(60), usage: USAGE, delayMs: 60 }],
};

describe('the model gateway', () => {
	let model, cloche;

	before(async () => {
		model = await Model.start({ script: SCRIPT, key: KEY });
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY }, listen: '127.0.0.1:0' });
		cloche.configure(
			`[sandboxes.default]\npool = 2\n${providers(
				model.url,
				'secret = "env:CLOCHE_TEST_MODEL_KEY"\ndefault_model = "scripted"\naliases = { fast = "scripted" }\nprices = { scripted = { input = 1.0, output = 4.0, cached = 0.5 }, costly = { input = 100.0, output = 4.0 }, dear = { input = 1.0, output = 1000.0 } }\n',
			)}`,
		);
		await cloche.serve();
	});

	after(async () => {
		await cloche?.stop();
		await model?.stop();
	});

	/** A run that does this inside. */
	const run = async (instruction, more = {}) => (await cloche.get('POST', '/tasks/run', { instruction, ...more }, WAIT)).task;
	const curl = (dialect, name, stream, prompt, args = '') => {
		const { path: route, body } = DIALECTS[dialect];
		return `curl -sS -N -m 20 ${args} -H 'content-type: application/json' 'http://llm.cloche.internal${route(name, stream)}' -d '${JSON.stringify(body(name, stream, prompt))}'`;
	};

	for (const dialect of Object.keys(DIALECTS)) {
		test(`${dialect}: a run gets answers, whole and in pieces, and every token is counted`, async () => {
			const { text, delta } = DIALECTS[dialect];
			const whole = await run(curl(dialect, 'scripted', false, 'hello'));
			assert.equal(whole.status, 'completed', whole.stderr);
			assert.equal(text(JSON.parse(whole.stdout)), 'You said hello');
			assert.deepEqual([whole.inputTokens, whole.outputTokens, whole.run.cachedTokens], [1000, 30, 200]);
			const streamed = await run(curl(dialect, 'scripted', true, 'hello'));
			assert.equal(dataOf(streamed.stdout).map(delta).join(''), 'You said hello');
			assert.deepEqual([streamed.inputTokens, streamed.outputTokens, streamed.run.cachedTokens], [1000, 30, 200]);
		});
	}

	test('the key is the provider\'s, wherever the client puts its own', async () => {
		const made = await cloche.key({ name: 'inside', scopes: ['llm_gateway:read'] });
		const own = made.secret;
		const ways = [`-H 'Authorization: Bearer none'`, `-H 'x-api-key: none'`, `-H 'x-goog-api-key: ${own}'`, `-H 'Authorization: Bearer ${own}' -H 'x-api-key: none'`];
		for (const way of ways) assert.match((await run(curl('messages', 'fast', false, 'hi', way))).stdout, /You said hi/, way);
		const asked = await model.log();
		assert.ok(asked.every((entry) => entry.key === KEY), 'and no other key reaches the provider');
		assert.equal(asked.at(-1).model, 'scripted', 'an alias becomes the name of the model');
		await cloche.get('DELETE', `/keys/${made.id}`);
		const revoked = await run(curl('messages', 'fast', false, 'hi', `-H 'x-api-key: ${own}'`));
		assert.equal(JSON.parse(revoked.stdout).error.type, 'authentication_error');
	});

	test('a sandbox without a run has no models, and one finds what there is', async () => {
		const box = await cloche.create();
		const bare = await cloche.exec(box.id, curl('chat', 'fast', false, 'hi'));
		assert.equal(JSON.parse(bare.stdout).error.type, 'authentication_error');
		await cloche.get('DELETE', `/sandboxes/${box.id}?force=1`);
		const list = JSON.parse((await run('curl -sS http://llm.cloche.internal/v1/models')).stdout);
		assert.deepEqual(list.data.map((item) => item.id).toSorted(), ['fast', 'scripted']);
		const nothing = await run(`curl -sS -w ' %{http_code}' http://llm.cloche.internal/v1/files`);
		assert.match(nothing.stdout, /no such API here.* 404$/);
		const unknown = await run(curl('gemini', 'a..b', false, 'hi'));
		assert.match(unknown.stdout, /error/);
	});

	test('callers outside ask without a sandbox', async () => {
		const body = DIALECTS.chat.body('fast', false, 'out');
		const local = await cloche.get('POST', '/llm/v1/chat/completions', body);
		assert.equal(DIALECTS.chat.text(local), 'You said out');
		assert.equal((await cloche.ok(['llm', 'classify', '-m', 'fast'], { input: 'this' })).trim(), 'You said classify\n\nthis');
		assert.equal((await cloche.json(['llm', 'x'])).usage.prompt_tokens, 1000);
	});

	test('a budget that ends within an answer ends the answer', async () => {
		// the first event already costs 0.1 dollar; the run ends with it, so its own output says little
		const task = await run(`${curl('messages', 'costly', true, 'go')}; sleep 5`, { budget: 0.02 });
		assert.equal(task.endReason, 'budget', JSON.stringify(task.run));
		assert.ok(!task.stdout.includes('message_stop'));
		const told = await cloche.get('GET', '/events?limit=1000');
		const call = told.items.findLast((event) => event.kind === 'sandbox.model' && event.data.model === 'costly');
		assert.deepEqual([call.data.verdict, call.data.rule], ['deny', 'budget']);
	});

	test('calls at once share a budget, each with money of its own', async () => {
		// each may cost 0.1 dollar and a little: there is enough for two
		const one = curl('messages', 'dear', false, 'go', `-o /dev/null -w '%{http_code}\\n'`);
		const task = await run(`for i in 1 2 3 4 5 6; do ${one} & done; wait`, { budget: 0.25 });
		assert.equal(task.status, 'completed', task.stderr);
		assert.deepEqual(task.stdout.trim().split('\n').toSorted(), ['200', '200', '402', '402', '402', '402']);
		assert.equal(task.outputTokens, 200);
		const after = await run(`${curl('messages', 'dear', false, 'go', '-o /dev/null')}; ${one}`, { budget: 0.25 });
		assert.equal(after.stdout.trim(), '200', 'what a call did not need is there again');
	});

	test('budgets of a key hold for calls without a run, at once and one by one', async () => {
		const made = await cloche.key({ name: 'outside', scopes: ['llm_gateway:read'] });
		const caller = await cloche.as(made.secret);
		const ask = async () => (await caller.api('POST', '/llm/v1/messages', DIALECTS.messages.body('dear', false, 'go'))).status;
		await cloche.get('PUT', `/budgets/key/${made.id}`, { amount: 0.25 });
		assert.deepEqual((await Promise.all([ask(), ask(), ask(), ask()])).toSorted(), [200, 200, 402, 402]);
		assert.equal(await ask(), 402);
		const { spent } = await cloche.get('PUT', `/budgets/key/${made.id}`, { amount: 0.35 });
		assert.ok(spent > 0.2 && spent < 0.21, `read from the store: ${spent}`);
		assert.equal(await ask(), 200, 'what was kept back and not needed is there again');
		await cloche.get('DELETE', `/budgets/key/${made.id}`);
		const rows = (await cloche.get('GET', '/audit?limit=1000')).items;
		assert.ok(rows.some((row) => row.action === 'llm' && row.credential === made.id), JSON.stringify(rows.at(-1)));
	});

	test('a provider made by the API draws no questions to itself', async () => {
		const made = { name: 'eager', kind: 'openai', baseUrl: 'http://127.0.0.1:1', secretValue: KEY, models: ['wanted'], visibility: 'team' };
		await cloche.get('POST', '/providers', made);
		const ask = (name) => cloche.api('POST', '/llm/v1/chat/completions', DIALECTS.chat.body(name, false, 'hi'));
		assert.equal((await ask('wanted')).status, 200, 'those of config.toml come first');
		assert.equal((await ask('eager/wanted')).status, 502, 'unless it is named');
		await cloche.get('DELETE', '/providers/eager');
	});

	test('what a caller leaves is estimated', async () => {
		const left = await run(`${curl('chat', 'slow', true, 'go')} | head -c 900; true`);
		assert.ok(left.outputTokens > 0 && left.outputTokens < 200, String(left.outputTokens));
		assert.ok(left.inputTokens > 10 && left.inputTokens < 1000, String(left.inputTokens));
	});

	test('two runs pay each their own', async () => {
		const [one, two] = await Promise.all([run(`${curl('chat', 'fast', true, 'a')}; ${curl('chat', 'fast', false, 'a')}`), run(curl('messages', 'fast', true, 'b'))]);
		assert.deepEqual([one.inputTokens, one.outputTokens, two.inputTokens, two.outputTokens], [2000, 60, 1000, 30]);
		assert.doesNotMatch(two.stdout, /said a/);
	});

	test('the key is nowhere: inside, in the state directory, in logs, events and errors', async () => {
		const task = await run(`env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; ${curl('chat', 'slow', true, 'x')}; grep -rl "sk-mod""el-" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 2>/dev/null; true`);
		assert.doesNotMatch(task.stdout + task.stderr, /sk-model-/);
		const found = execFileSync('sh', ['-c', `grep -rlaF '${KEY}' '${cloche.state}' || true`]).toString();
		assert.equal(found, '');
		assert.ok(!cloche.log.includes(KEY));
		const told = await cloche.get('GET', '/events?limit=1000');
		assert.ok(!JSON.stringify(told).includes(KEY));
		const call = told.items.findLast((event) => event.kind === 'sandbox.model');
		assert.deepEqual([call.data.provider, call.data.model, call.data.status, call.data.inputTokens], ['openai', 'slow', 200, 1000]);
	});
});

/** Providers that do not do as they should. */
async function evil() {
	const seen = [];
	const server = http.createServer((request, response) => {
		const parts = [];
		request.on('data', (part) => parts.push(part));
		request.on('end', () => {
			const { model } = JSON.parse(Buffer.concat(parts));
			seen.push({ model, headers: request.headers });
			if (model === 'evil-hang') return;
			if (model === 'evil-busy') return response.writeHead(429, { 'content-type': 'application/json' }).end('{"error":{"message":"busy"}}');
			if (model === 'evil-moved') return response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
			if (model === 'evil-packed') return response.writeHead(200, { 'content-encoding': 'gzip' }).end(zlib.gzipSync('{}'));
			if (model === 'evil-echo') return response.writeHead(400, { 'content-type': 'application/json', 'x-echo': request.headers.authorization }).end(JSON.stringify({ error: { message: `bad key ${request.headers.authorization}` } }));
			if (model === 'evil-header') {
				request.socket.write('HTTP/1.1 200 OK\r\n');
				const timer = setInterval(() => (request.socket.destroyed ? clearInterval(timer) : request.socket.write(`x-${'y'.repeat(4000)}: z\r\n`)), 1);
				return;
			}
			response.writeHead(200, { 'content-type': 'text/event-stream' });
			response.end(`data: {"usage":{"prompt_tokens":-5,"completion_tokens":1e400}}\n\ndata: {{{\r\rdata\0: [[[[${'['.repeat(5000)}\n\n`);
		});
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return { seen, url: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))) };
}

describe('the model gateway and providers that fail', () => {
	let model, bad, cloche;

	before(async () => {
		model = await Model.start({ script: { ...SCRIPT, failing: [{ error: 500, times: 9 }, { text: 'never' }] }, key: KEY });
		bad = await evil();
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY }, listen: '127.0.0.1:0' });
		const provider = (name, url, models) => `[llm.providers.${name}]\nkind = "openai"\nbase_url = "${url}"\nsecret = "env:CLOCHE_TEST_MODEL_KEY"\nmodels = ${JSON.stringify(models)}\n`;
		cloche.configure(
			`[sandboxes.default]\npool = 0\n[llm]\nidle_timeout = "1s"\nrequest_bytes = "1M"\nrequests_per_minute = 40\n` +
				provider('dead', 'http://127.0.0.1:1', ['ha-*', 'gone']) +
				provider('evil', bad.url, ['evil-*', 'ha-*']) +
				provider('good', `${model.url}/v1`, ['ha-*', 'default-*', 'evil-hang', 'evil-busy', 'failing']),
		);
		await cloche.serve();
	});

	after(async () => {
		await cloche?.stop();
		await bad?.close();
		await model?.stop();
	});

	const ask = (name, more) => cloche.api('POST', '/llm/v1/chat/completions', { ...DIALECTS.chat.body(name, false, 'hi'), ...more });

	test('the next one is asked when one cannot be reached, is busy or says nothing', async () => {
		for (const name of ['evil-busy', 'evil-hang']) {
			const answer = await ask(name);
			assert.equal(answer.status, 200, `${name} ${answer.bytes}`);
			assert.equal(DIALECTS.chat.text(answer.body), 'You said hi');
		}
	});

	test('an error says who was asked and what became of it', async () => {
		const gone = await ask('gone');
		assert.equal(gone.status, 502);
		assert.match(gone.body.error.message, /no provider answered \(dead: cannot be reached/);
		assert.equal((await ask('dead/ha-x')).status, 502, 'the one that is named and no other');
		assert.equal((await ask('dead/evil-busy')).status, 404, 'and only what it has');
		assert.equal((await ask('gone', { Model: 'ha-x' })).status, 400, 'in no letters two models');
		const passed = await ask('good/failing');
		assert.equal(passed.status, 500, 'of a single one the answer is passed on');
		assert.equal(passed.body.error.message, 'scripted failure');
		assert.match((await ask('nosuch')).body.error.message, /no openai provider has the model 'nosuch'/);
	});

	test('what an upstream makes up harms nobody', async () => {
		for (const [name, status] of [['evil-moved', 502], ['evil-packed', 502], ['evil-header', 502], ['evil-events', 200], ['evil-echo', 400]]) {
			const answer = await ask(name);
			assert.equal(answer.status, status, `${name} ${answer.bytes}`);
			assert.ok(!String(answer.bytes).includes(KEY) && !JSON.stringify(answer.headers).includes(KEY), name);
		}
		assert.equal(bad.seen.at(-1).headers['accept-encoding'], 'identity');
	});

	test('what one caller sends at once is bounded', async () => {
		const pad = 'x'.repeat(900 << 10);
		// Node writes once more after the last byte: where answer and end are faster, it tells of that alone
		const cut = (error) => (assert.equal(error.code, 'EPIPE'), { status: 429 });
		const answers = await Promise.all(Array.from({ length: 6 }, () => ask('evil-hang', { pad }).catch(cut)));
		assert.deepEqual(answers.map((answer) => answer.status).toSorted(), [200, 200, 200, 200, 429, 429]);
		for (const { body } of answers.filter((answer) => answer.status === 429 && answer.body)) assert.match(body.error.message, /too much is sent at once/);
		assert.equal((await ask('default-x', { pad })).status, 200, 'and then there is room again');
	});

	test('requests have a size and a rate', async () => {
		assert.equal((await ask('default-x', { pad: 'x'.repeat(2 << 20) })).status, 413);
		const key = (await cloche.key({ name: 'often', scopes: ['llm_gateway:read'] })).secret;
		const caller = await cloche.as(key);
		let answer;
		for (let i = 0; i < 45 && answer?.status !== 429; i++) answer = await caller.api('POST', '/llm/v1/chat/completions', DIALECTS.chat.body('default-x', false, 'hi'));
		assert.equal(answer.status, 429);
		assert.ok(Number(answer.headers['retry-after']) >= 1);
		assert.equal(answer.body.error.type, 'rate_limit_error');
		assert.equal((await ask('default-x')).status, 200, 'others are not concerned');
		const other = await cloche.as((await cloche.key({ name: 'no models', scopes: ['sandboxes:read'] })).secret);
		assert.equal((await other.api('GET', '/llm/v1/models')).status, 403);
	});

	test('what the whole team uses is made by its admins', async () => {
		const body = { name: 'ours', kind: 'openai', baseUrl: 'https://example.org', secretValue: KEY };
		await cloche.get('POST', '/teams', { name: 'ops' });
		for (const [role, status] of [['member', 403], ['admin', 201]]) {
			await cloche.get('PUT', `/teams/ops/members/${role}`, { role });
			const caller = await cloche.as((await cloche.key({ name: role, team: 'ops', principal: role })).secret);
			await caller.expect(status, 'POST', '/providers', { ...body, visibility: 'team' });
			await caller.expect(201, 'POST', '/providers', { ...body, name: `own-${role}` });
		}
	});

	test('a provider of the API: sealed key, private addresses closed, shown without its key', async () => {
		const body = { name: 'mine', kind: 'openai', baseUrl: model.url, secretValue: KEY, defaultModel: 'scripted', prices: { '*': { input: 1, output: 2 } } };
		const made = await cloche.get('POST', '/providers', body);
		assert.deepEqual([made.secret, made.origin, made.prices['*'].cached], ['sealed', 'api', 1]);
		const closed = await ask('mine/scripted');
		assert.equal(closed.status, 502);
		assert.match(closed.body.error.message, /mine: leads to an address that \[llm\] allow_cidrs does not open/);
		assert.equal((await cloche.api('POST', '/providers/mine/test')).status, 403);
		assert.equal((await cloche.api('POST', '/providers', { ...body, name: 'good' })).status, 409);
		assert.equal((await cloche.api('POST', '/providers', body)).status, 409);
		assert.equal((await cloche.api('DELETE', '/providers/good')).status, 409);
		assert.match(await cloche.ok(['provider', 'list']), /mine +openai/);
		assert.doesNotMatch(await cloche.ok(['provider', 'show', 'mine']), new RegExp(KEY));
		assert.match(await cloche.ok(['provider', 'test', 'good']), /200/);
		await cloche.ok(['provider', 'rm', 'mine']);
		assert.equal((await cloche.api('GET', '/providers/mine')).status, 404);
		await cloche.ok(['provider', 'add', 'two', 'anthropic', 'https://example.org', '--secret', '-', '--alias', 'a=b', '--price', 'b=1/2/0.5'], { input: `${KEY}\n` });
		assert.deepEqual((await cloche.json(['provider', 'show', 'two'])).aliases, { a: 'b' });
		const found = execFileSync('sh', ['-c', `grep -rlaF '${KEY}' '${cloche.state}' || true`]).toString();
		assert.equal(found, '', 'what is sealed is not readable');
	});

	test('a provider changes from the next call on, and its key goes nowhere it was not given for', async () => {
		await cloche.get('POST', '/providers', { name: 'moved', kind: 'openai', baseUrl: 'https://one.example.org', secretValue: KEY, models: ['a'], aliases: { x: 'a' }, prices: { a: { input: 1, output: 2 } } });
		const changed = await cloche.get('PATCH', '/providers/moved', { defaultModel: 'b', models: ['b', 'c-*'], aliases: {}, prices: { b: { input: 3, output: 4 } } });
		assert.deepEqual([changed.defaultModel, changed.models, changed.aliases, changed.prices, changed.baseUrl, changed.secret],
			['b', ['b', 'c-*'], {}, { b: { input: 3, output: 4, cached: 3 } }, 'https://one.example.org', 'sealed']);
		const elsewhere = await cloche.api('PATCH', '/providers/moved', { baseUrl: model.url });
		assert.equal(elsewhere.status, 400);
		assert.match(elsewhere.body.detail, /secretValue is needed again: .*one\.example\.org/);
		const other = { baseUrl: 'https://two.example.org', secretValue: `${KEY}-2` };
		assert.equal((await cloche.get('PATCH', '/providers/moved', other)).baseUrl, other.baseUrl);
		assert.equal((await cloche.get('PATCH', '/providers/moved', { secret: 'env:CLOCHE_NONE' })).secret, 'env:CLOCHE_NONE');
		assert.equal((await cloche.api('PATCH', '/providers/moved', { secret: 'sealed' })).status, 400, 'what was sealed is gone');
		assert.equal((await cloche.get('PATCH', '/providers/moved', { secret: null, defaultModel: null })).secret, null);
		for (const wrong of [{ kind: 'none' }, { baseUrl: 'ftp://x' }, { secretValue: '' }, { secretValue: 'a\nb' }, { name: 'other' }, { prices: { b: 1 } }])
			assert.equal((await cloche.api('PATCH', '/providers/moved', wrong)).status, 400, JSON.stringify(wrong));
		assert.equal((await cloche.api('PATCH', '/providers/good', {})).status, 409, 'config.toml is changed in config.toml');
		assert.equal((await cloche.api('PATCH', '/providers/none', {})).status, 404);
		await cloche.ok(['provider', 'set', 'moved', '--default-model', 'd', '--serve', 'd', '--secret', '-'], { input: `${KEY}\n` });
		const shown = await cloche.json(['provider', 'show', 'moved']);
		assert.deepEqual([shown.defaultModel, shown.models, shown.secret, shown.prices.b.input], ['d', ['d'], 'sealed', 3]);
		const member = await cloche.as((await cloche.key({ name: 'm2', team: 'ops', principal: 'member' })).secret);
		await member.expect(403, 'PATCH', '/providers/own-member', { visibility: 'team' });
		await member.expect(403, 'PATCH', '/providers/own-member', { secret: 'env:CLOCHE_PATH' });
		await member.expect(404, 'PATCH', '/providers/moved', {});
		const found = execFileSync('sh', ['-c', `grep -rlaF '${KEY}' '${cloche.state}' || true`]).toString();
		assert.equal(found, '', 'what is sealed is not readable');
		assert.ok((await cloche.get('GET', '/events?limit=1000')).items.some((event) => event.kind === 'provider.changed'));
	});
});
