// Attacks on what an agent is given besides a machine: repositories made to hurt, git configured against us, requests of MCP and of git that
// are huge, deep, doubled or mean two things. Each attempt must fail, and leave what is outside as it was.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { call } from './lib/http.mjs';
import { Daemon } from './lib.mjs';
import { Forge, forgeConfig, runTask, section, stepOf } from './lib/forge.mjs';

describe('hostile repositories', () => {
	let forge, daemon;

	before(async () => {
		forge = await Forge.start();
		for (const name of ['org/app', 'org/other']) forge.make(name);
		daemon = await Daemon.start({
			config: forgeConfig(section('hub', forge, 'secret = "env:CLOCHE_TEST_FORGE"')),
			env: { CLOCHE_TEST_FORGE: forge.token }, listen: '127.0.0.1:0',
		});
	});
	after(async () => {
		await daemon?.stop();
		await forge?.stop();
	});

	/** Nothing but the own repository was asked for, and the other is as it was. */
	const nothingElse = (since) => {
		const asked = forge.requests.slice(since).filter((one) => one.path.includes('org/other') || !/^\/(org\/[a-z]+\.git|api\/v3\/repos\/org\/[a-z]+)\//.test(one.path));
		assert.deepEqual(asked, []);
		assert.deepEqual(forge.branches('org/other'), ['main']);
		assert.equal(forge.log('org/other', 'main').length, 1);
	};

	test('submodules, filters and links in a tree run nothing and fetch nothing', async () => {
		const since = forge.requests.length;
		forge.make('org/traps', {
			'.gitmodules': '[submodule "a"]\n\tpath = a\n\turl = ext::sh -c touch% /tmp/pwned\n[submodule "b"]\n\tpath = b\n\turl = file:///etc\n[submodule "c"]\n\tpath = c\n\turl = ../other.git\n\tupdate = !touch /tmp/pwned\n',
			'.gitattributes': '* filter=evil diff=evil merge=evil\n',
			'sub/.gitattributes': { link: '/dev/zero' },
			'.gitconfig': '[filter "evil"]\n\tsmudge = touch /tmp/pwned\n[core]\n\tfsmonitor = touch /tmp/pwned\n',
			'root': { link: '/' }, 'README.md': { link: '/etc/passwd' },
		});
		const task = await runTask(daemon, { instruction: 'ls /tmp; ls -d a b c 2>/dev/null; echo more > new', repository: 'org/traps' });
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.ok(!/pwned/.test(task.stdout) && !fs.existsSync('/tmp/pwned'), task.stdout);
		assert.match(task.pullRequest.url, /org\/traps\/pull/);
		nothingElse(since);
	});

	test('names of branches are names, whatever they look like', async () => {
		forge.make('org/named');
		forge.git('org/named', 'branch', '-m', 'main', '$(touch${IFS}/tmp/pwned)');
		forge.git('org/named', 'symbolic-ref', 'HEAD', 'refs/heads/$(touch${IFS}/tmp/pwned)');
		const task = await runTask(daemon, { instruction: 'ls /tmp; echo x > x', repository: 'org/named' });
		assert.ok(!/pwned/.test(task.stdout ?? '') && !fs.existsSync('/tmp/pwned'));
		assert.ok(['completed', 'failed'].includes(task.status), task.status);
		assert.match(task.status === 'failed' ? stepOf(task, 'clone').detail : 'name', /name/);
	});

	test('thousands of references are no burden', async () => {
		forge.make('org/many');
		const head = forge.git('org/many', 'rev-parse', 'main').trim();
		const names = Array.from({ length: 5000 }, (_, n) => `refs/heads/${'long-'.repeat(20)}${n}`).sort();
		fs.writeFileSync(path.join(forge.folder, 'org/many.git/packed-refs'), `# pack-refs with: peeled fully-peeled sorted \n${names.map((name) => `${head} ${name}\n`).join('')}`);
		const task = await runTask(daemon, { instruction: 'git branch -a | wc -l; echo x > x', repository: 'org/many' });
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.ok(Number(task.stdout) <= 4, task.stdout);
	});

	test('git that an agent configured against us works for nobody but itself', async () => {
		const since = forge.requests.length;
		const evil = `cat > /tmp/evil <<'EOF'
#!/bin/sh
touch /tmp/ran; env > /tmp/env-of-$$; echo head=$(printf 'f%.0s' $(seq 40)); echo base=main
EOF
chmod +x /tmp/evil; mkdir /tmp/hooks; for h in pre-commit pre-push reference-transaction post-commit; do cp /tmp/evil /tmp/hooks/$h; done
git config core.hooksPath /tmp/hooks; git config core.fsmonitor /tmp/evil; git config core.pager /tmp/evil; git config credential.helper /tmp/evil; echo more >> README.md`;
		for (const [what, more, endReason, detail] of [
			['hooks, a monitor and a helper', '', 'finished', null],
			['another address for the push', 'git config remote.origin.pushurl http://git.cloche.internal/org/other.git', 'publish_failed', /org\/app\.git and nothing else/],
			['another address for everything', 'git config url.http://git.cloche.internal/org/other.git.insteadOf http://git.cloche.internal/org/app.git', 'publish_failed', /org\/app\.git and nothing else/],
			['another reference', 'git config remote.origin.push HEAD:refs/heads/main; git config push.default matching', 'finished', null],
			['a folder of git elsewhere', 'mv .git /tmp/real; ln -s /tmp/real .git', 'finished', null],
			['no folder of git', 'rm -rf .git; ln -s / .git', 'publish_failed', /git/],
			['a shell in its place', 'printf "#!/bin/sh\\necho head=%040d\\n" 7 > git; chmod +x git; export PATH=$PWD:$PATH; rm -rf .git', 'publish_failed', /git/],
		]) {
			const count = forge.pulls.length;
			const task = await runTask(daemon, { instruction: `${evil}\n${more}`, repository: 'org/app' });
			assert.equal(task.endReason, endReason, `${what}: ${JSON.stringify(task.run.steps)}`);
			if (detail) assert.match(task.run.detail, detail, what);
			assert.equal(forge.pulls.length, count + (endReason === 'finished' ? 1 : 0), what);
			assert.equal(forge.log('org/app', 'main').length, 1, what);
			assert.ok(!JSON.stringify(task).includes(forge.token));
		}
		assert.ok(!fs.existsSync('/tmp/ran'), 'nothing of it ran outside');
		nothingElse(since);
	});

	test('addresses that mean two things lead nowhere', async () => {
		const since = forge.requests.length;
		const rest = '/info/refs?service=git-upload-pack';
		const targets = [
			`http://git.cloche.internal/org/other.git${rest}`, `http://127.0.0.1/org/other.git${rest}`, `//org/other.git${rest}`, `/org/app.git/./../other.git${rest}`,
			`/org/app.git//info/refs?service=git-upload-pack`, `/org/app.git/info/refs;x?service=git-upload-pack`, `/org/app.git/info/refs%3fservice=git-upload-pack`,
			`/org/app%2egit${rest}`, `/org/app.git%00/../../org/other.git${rest}`, `/org\\other.git${rest}`, `/org/app.git/info/refs?service=git-upload-pack%26service=git-receive-pack`,
			`/org/app.git/info/refs?service=git-receive-pack#x`, `/org/app.git/info/refs?service=git%2dreceive-pack`, '*', `/%6frg/other.git${rest}`, `/org/app.git/../../api/v3/user`,
		];
		const lines = targets.map((target) => `curl -s -o /dev/null -w '%{http_code}\\n' --request-target '${target}' http://git.cloche.internal/`);
		lines.push(`curl -s -o /dev/null -w '%{http_code}\\n' -H 'host: ${forge.url.slice(7)}' http://git.cloche.internal/org/other.git${rest}`);
		lines.push(`curl -s -o /dev/null -w '%{http_code}\\n' -X PROPFIND http://git.cloche.internal/org/app.git/`);
		lines.push(`curl -s -o /dev/null -w '%{http_code}\\n' -H 'x-http-method-override: POST' -H 'x-original-url: /org/other.git${rest}' http://git.cloche.internal/org/other.git${rest}`);
		// it may be cut off while it still writes
		lines.push(`trap '' PIPE; exec 3<>/dev/tcp/git.cloche.internal/80; printf 'POST /org/app.git/git-upload-pack HTTP/1.1\\r\\nHost: git.cloche.internal\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /org/other.git${rest} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; echo "[$(timeout 3 head -c 12 <&3 | tail -c 3)]"`);
		const task = await runTask(daemon, { instruction: `bash -c "$(cat <<'EOF'\n${lines.join('\n')}\nEOF\n)"`, repository: 'org/app', createPr: false });
		const codes = task.stdout.trim().split('\n');
		assert.equal(codes.length, lines.length, task.stdout + task.stderr);
		codes.forEach((code, n) => assert.match(code, /^(4\d\d|000|\[(4\d\d)?\])$/, `${targets[n] ?? lines[n]}: ${code}`));
		nothingElse(since);
	});
});

describe('hostile requests of MCP', () => {
	let daemon, tcp, keys;
	const BOTH = { accept: 'application/json, text/event-stream' };

	before(async () => {
		daemon = await Daemon.start({ config: '[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n', listen: '127.0.0.1:0' });
		tcp = await daemon.tcp();
		keys = [];
		for (const name of ['one', 'two']) keys.push((await daemon.key({ name, operator: true })).secret);
	});
	after(async () => daemon?.stop());

	const post = (body, headers = {}, key = keys[0]) => call(tcp, 'POST', '/mcp', body, { headers: { ...BOTH, 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers } });
	const open = async (key) => {
		const answer = await post(JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } } }), {}, key);
		assert.equal(answer.status, 200);
		return { 'mcp-session-id': answer.headers['mcp-session-id'], 'mcp-protocol-version': '2025-11-25' };
	};

	test('deep, long, doubled or strange bodies are refused, and the next is answered', async () => {
		const session = await open();
		const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
		const inTool = (args) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTask","arguments":${args}}}`;
		for (const [what, body, status] of [
			['deep lists', '['.repeat(200000), 400],
			['deep parameters', `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}}`, 400],
			['deep arguments', inTool(`${'{"a":'.repeat(3000)}1${'}'.repeat(3000)}`), 400],
			['a method twice', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', 400],
			['a name twice', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"usage","name":"runTask","arguments":{}}}', 400],
			['arguments twice', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getTask","arguments":{"task":"a","task":"b"}}}', 400],
			['several at once', `[${ping},${ping}]`, 400],
			['one behind another', `${ping}${ping}`, 400],
			['no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400],
			['a surrogate alone', '{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', 400],
			['a number beyond numbers', '{"jsonrpc":"2.0","id":1e999,"method":"ping"}', 400],
			['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}', 400],
			['too much', `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(3 << 20)}"}}`, 413],
		]) {
			const answer = await post(body, session);
			assert.equal(answer.status, status, `${what}: ${String(answer.bytes).slice(0, 200)}`);
			assert.equal((await post(ping, session)).status, 200, `after ${what}`);
		}
		const long = await post(`{"jsonrpc":"2.0","id":"${'i'.repeat(60000)}","method":"${'m'.repeat(60000)}"}`, session);
		assert.ok(long.bytes.length < 200000 && long.body.error, String(long.status));
		const nul = await post(inTool('{"task":"a\\u0000/../../x"}'), session);
		assert.ok(nul.status === 400 || nul.body.error || nul.body.result.isError, String(nul.bytes));
	});

	test('a session is nobody else\'s, in no spelling', async () => {
		const [mine, theirs] = [await open(keys[0]), await open(keys[1])];
		const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
		const id = mine['mcp-session-id'];
		assert.equal((await post(ping, mine)).status, 200);
		for (const wrong of [theirs['mcp-session-id'], id.toUpperCase() === id ? `${id}x` : id.toUpperCase(), id.slice(0, -1), `${id}x`, `${id},${id}`, ' ', '../x', '%00', 'x'.repeat(4000), `${theirs['mcp-session-id']}, ${id}`])
			for (const method of ['POST', 'GET', 'DELETE']) {
				const answer = await call(tcp, method, '/mcp', method === 'POST' ? ping : undefined, { headers: { ...BOTH, authorization: `Bearer ${keys[0]}`, ...mine, 'mcp-session-id': wrong, ...(method === 'GET' ? { accept: 'text/event-stream' } : {}) } });
				assert.ok([400, 404, 431].includes(answer.status), `${method} ${wrong.slice(0, 60)}: ${answer.status}`);
			}
		assert.equal((await post(ping, mine)).status, 200);
		assert.equal((await post(ping, theirs, keys[1])).status, 200, 'and theirs is as it was');
	});

	test('what a tool is given stays in its place', async () => {
		const session = await open();
		for (const [name, args] of [['getTask', { task: '../../keys' }], ['getTask', { task: 'x?limit=1' }], ['getSandbox', { sandbox: '%2e%2e/keys' }], ['getEnvironment', { environment: 'a/../../keys' }],
			['readFile', { sandbox: 'x', path: '/x\r\nx: y' }], ['getSession', { session: '' }], ['taskLogs', { task: '#' }]]) {
			const { body, status } = await post(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }), session);
			assert.ok(status === 200 && body.result.isError, `${name}: ${JSON.stringify(body)}`);
			assert.ok(!/sk_live|"scopes"/.test(JSON.stringify(body)));
		}
	});
});
