// What people hear of decisions and how they decide: live lines, questions and who may answer them, and what goes on
// while no daemon is there to be told.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, clocheBin, isRoot, until } from './lib.mjs';

const A = '93.184.216.34';
const B = '93.184.216.35';
const C = '93.184.216.36';
const curl = (url, more = '') => `curl -sS -m 40 -o /dev/null -w '%{http_code}\\n' ${more} ${url}`;

const config = (timeout) => `[network]
resolvers = ["${RESOLVER}"]
ask_timeout = "${timeout}"
[sandboxes.default]
pool = 1
[server]
listen = "none"
[services.echo]
upstream = "http://${A}/echo"
[environments.asking]
allowed_domains = ["example.test"]
mode = "ask"
`;

/** A daemon in an internet of its own, for all tests of a describe(). */
function withInternet(timeout) {
	const held = {};
	before(async () => {
		held.net = await Internet.start();
		await held.net.names({ 'example.test': { a: [A] }, 'other.test': { a: [B] }, 'third.test': { a: [C] } });
		held.cloche = await Daemon.start({ config: config(timeout), enter: held.net.enter });
	});
	after(async () => {
		await held.cloche?.stop();
		await held.net?.stop();
	});
	held.decisions = async (id) => (await held.cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.network&limit=1000`)).items;
	held.decided = (id, wanted) =>
		until(async () => (await held.decisions(id)).find((one) => Object.entries(wanted).every(([key, value]) => one.data[key] === value)), `a decision ${JSON.stringify(wanted)}`);
	held.start = (id, shell) => held.cloche.get('POST', `/sandboxes/${id}/execs`, { shell, background: true });
	held.output = async (id, exec) => String((await held.cloche.api('GET', `/sandboxes/${id}/execs/${exec.id}/output`)).bytes);
	held.ended = (id, exec) =>
		until(async () => (await held.cloche.get('GET', `/sandboxes/${id}/execs/${exec.id}`)).state === 'ended', 'the command ends', 60000).then(() => held.output(id, exec));
	held.question = (host) => until(async () => (await held.cloche.get('GET', '/approvals')).items.find((one) => one.host === host), `a question about ${host}`);
	held.remove = (id) => held.cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	return held;
}

const needs = { skip: isRoot ? false : 'needs root to make network namespaces' };

describe('decisions, live', needs, () => {
	const held = withInternet('2m');

	test('cloche sandbox net --follow tells each one as it is made, with all that belongs to it', async () => {
		const { cloche } = held;
		const { id } = await cloche.create({ allow: ['example.test'] });
		const child = spawn(clocheBin(), ['sandbox', 'net', id, '--follow'], { env: cloche.env, stdio: ['ignore', 'pipe', 'inherit'] });
		let text = '';
		child.stdout.on('data', (part) => (text += part));
		const line = (pattern) => until(() => text.split('\n').find((one) => pattern.test(one)), `a line ${pattern}`);
		try {
			assert.equal((await cloche.exec(id, curl('http://example.test/'))).stdout, '200\n');
			assert.match(await line(/allow +tcp/), /^\d{4}-\S+Z +allow +tcp example\.test:80 \(93\.184\.216\.34\)( by curl)?: allow example\.test \(this sandbox\)$/);
			assert.match(await line(/closed +tcp/), /example\.test:80 .*, \d+ bytes out, \d+ in$/);
			await cloche.exec(id, `${curl('http://other.test/')}; ${curl(`http://${B}/`)}; true`);
			assert.match(await line(/deny +dns/), /deny +dns other\.test:53 by curl: no rule allows this name$/);
			assert.match(await line(/deny +tcp/), /deny +tcp 93\.184\.216\.35:80 by curl: /);
			await cloche.ok(['sandbox', 'net', 'set', id, '--allow', 'other.test']);
			assert.equal((await cloche.exec(id, curl('http://other.test/'))).stdout, '200\n');
			assert.match(await line(/allow +tcp other/), /other\.test:80 \(93\.184\.216\.35\)/);
		} finally {
			child.kill('SIGTERM');
		}
		// Each event says when it was decided: how late it came is in it.
		const late = (await held.decisions(id)).map((one) => Date.parse(one.time) - Date.parse(one.data.decidedAt));
		// A machine with other work may hold back some of them, not most.
		assert.ok(late.length >= 5 && late.filter((ms) => ms < 1000).length > late.length / 2, `milliseconds: ${late}`);
		const allow = (await held.decided(id, { verdict: 'allow', host: 'example.test', proto: 'tcp' })).data;
		assert.deepEqual([allow.address, allow.port, allow.rule, allow.generation, allow.count], [A, 80, 'allow example.test (this sandbox)', 1, 1]);
		const deny = (await held.decided(id, { verdict: 'deny', host: 'other.test', proto: 'dns' })).data;
		assert.deepEqual([deny.program, deny.rule], ['curl', 'no rule allows this name']);
		const closed = (await held.decided(id, { verdict: 'closed', host: 'example.test' })).data;
		assert.ok(closed.sent > 0 && closed.received > 0);
		await held.remove(id);
	});

	test('with the daemon away: services answer 503, names and connections go on, and nothing is counted twice or lost', async () => {
		const { cloche, net } = held;
		const { id } = await cloche.create({ allow: ['example.test', 'third.test'] });
		const service = `curl -sS -m 20 -o /dev/null -D - http://echo.cloche.internal/`;
		assert.match((await cloche.exec(id, service)).stdout, /^HTTP\/1\.1 200 /);
		assert.equal((await cloche.exec(id, curl('http://example.test/before'))).stdout, '200\n');
		// Waits until nobody is there, then reaches one host 20 times, another 5 times and asks for a third's name.
		const work = await held.start(
			id,
			`until ${service} 2>/dev/null | grep -q ' 503 '; do sleep 0.02; done; ${service} | tr -d '\\r' | grep -iE '^(HTTP|Retry)'
			for i in $(seq 20); do ${curl('http://example.test/away')}; done
			for i in $(seq 5); do ${curl('http://third.test/away')}; done
			${curl('http://other.test/', '2>&1')}
			${curl('http://example.test/last')}`,
		);
		net.clear();
		cloche.child.kill('SIGSTOP'); // it would start another one at once
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		try {
			await until(() => net.log.some((row) => row.path === '/last'), 'all of it is done', 60000);
		} finally {
			cloche.child.kill('SIGCONT');
		}
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'the daemon is back');
		const text = await held.ended(id, work);
		assert.match(text, /^HTTP\/1\.1 503 .*\nRetry-After: \d+\n/);
		assert.equal(text.match(/^200$/gm).length, 26, text);
		assert.match(text, /Could not resolve host: other\.test/);
		assert.ok(net.asked().includes('third.test') && !net.asked().includes('other.test'));
		const row = async (host) => (await cloche.get('GET', `/sandboxes/${id}/network`)).hosts.find((one) => one.host === host && one.proto === 'tcp');
		assert.equal((await row('example.test')).connections, 22);
		assert.equal((await row('third.test')).connections, 5);
		assert.ok((await row('third.test')).sent > 300 && (await row('third.test')).received > 500);
		assert.equal((await cloche.get('GET', `/sandboxes/${id}`)).meters.netConnections, 27);
		// The events say the same: each connection once, those of the time without a daemon too.
		const count = async (wanted) =>
			(await held.decisions(id)).filter((one) => Object.entries(wanted).every(([key, value]) => one.data[key] === value)).reduce((sum, one) => sum + one.data.count, 0);
		await until(async () => (await count({ verdict: 'closed', host: 'example.test' })) >= 22, 'the last is told');
		assert.equal(await count({ verdict: 'allow', proto: 'tcp', host: 'example.test' }), 22);
		assert.equal(await count({ verdict: 'closed', proto: 'tcp', host: 'third.test' }), 5);
		assert.ok((await count({ verdict: 'deny', host: 'other.test' })) >= 1);
		const sums = async (host) => (await held.decisions(id)).filter((one) => one.data.host === host).reduce((sum, one) => sum + (one.data.sent ?? 0), 0);
		assert.equal(await sums('third.test'), (await row('third.test')).sent);
		await held.remove(id);
	});
});

describe('asking a person', needs, () => {
	const held = withInternet('2m');

	test('once is this connection, sandbox is this sandbox, environment is the next ones, too', async () => {
		const { cloche } = held;
		await cloche.get('POST', '/environments', { name: 'mine', allowedDomains: ['example.test'], mode: 'ask' });
		const [one, two] = [await cloche.create({ network: 'mine' }), await cloche.create({ network: 'mine' })];
		const ask = async (box, host, reach) => {
			const exec = await held.start(box.id, curl(`http://${host}/`));
			const question = await held.question(host);
			assert.deepEqual([question.sandbox, question.port, question.proto, question.program], [box.id, 80, 'tcp', 'curl']);
			await cloche.ok(['approval', 'allow', ...(reach ? ['--for', reach] : []), question.id]);
			assert.equal(await held.ended(box.id, exec), '200\n');
		};
		await ask(one, 'other.test');
		await ask(one, 'other.test', 'once'); // asked again
		await ask(one, 'other.test', 'sandbox');
		assert.equal((await cloche.exec(one.id, curl('http://other.test/'))).stdout, '200\n', 'not asked again');
		await ask(two, 'other.test', 'once'); // the other sandbox is
		await ask(two, 'third.test', 'environment');
		assert.deepEqual((await cloche.get('GET', '/environments/mine')).allowedDomains.sort(), ['example.test', 'third.test:80']);
		const three = await cloche.create({ network: 'mine' });
		assert.equal((await cloche.exec(three.id, curl('http://third.test/'))).stdout, '200\n', 'the next one has it');
		const refused = await cloche.cli(['approval', 'allow', 'ap_00000000000000000000']);
		assert.notEqual(refused.code, 0);
		assert.match(refused.stderr, /waits/);
		for (const box of [one, two, three]) await held.remove(box.id);
	});

	test('one of config.toml does not change; the question stays', async () => {
		const { cloche } = held;
		const { id } = await cloche.create({ network: 'asking' });
		const exec = await held.start(id, curl('http://other.test/'));
		const question = await held.question('other.test');
		const refused = await cloche.cli(['approval', 'allow', '--for', 'environment', question.id]);
		assert.notEqual(refused.code, 0);
		assert.match(refused.stderr, /does not change here/);
		await cloche.ok(['approval', 'deny', (await held.question('other.test')).id]);
		assert.notEqual(await held.ended(id, exec), '200\n');
		await held.decided(id, { verdict: 'deny', host: 'other.test', rule: 'a person refused it' });
		await held.remove(id);
	});

	test('the token of a run answers nothing, its own question least of all', async () => {
		const { cloche } = held;
		const script = `${curl('http://other.test/')} > /tmp/got & until [ -s /tmp/id ]; do sleep 0.1; done
			id=$(cat /tmp/id)
			cloche approval list; echo "list $?"
			cloche approval allow $id; echo "allow $?"
			cloche approval deny $id; echo "deny $?"
			for token in "" $(tr '\\0' '\\n' < /proc/self/environ | sed -n 's/^CLOCHE_[A-Z_]*=//p'); do
				curl -sS -m 20 -o /dev/null -w 'raw %{http_code}\\n' --unix-socket /run/cloche/api.sock -H "Authorization: Bearer $token" -d '{"verdict": "allow"}' http://localhost/api/v1/approvals/$id
			done
			echo asked > /tmp/asked; wait; cat /tmp/got`;
		const { task } = await cloche.get('POST', '/tasks/run', { instruction: script, environment: 'asking', timeout: 120000 });
		const question = await held.question('other.test');
		await cloche.get('PUT', `/sandboxes/${question.sandbox}/files?path=/tmp/id`, question.id);
		await until(async () => (await cloche.exec(question.sandbox, 'cat /tmp/asked 2>/dev/null; true')).stdout === 'asked\n', 'it has tried', 60000);
		assert.equal((await held.question('other.test')).id, question.id, 'it still waits');
		await cloche.ok(['approval', 'allow', question.id]);
		const { task: end } = await cloche.get('GET', `/tasks/${task.id}`, undefined, { headers: { Prefer: 'wait=60' } });
		assert.equal(end.status, 'completed', end.stderr);
		assert.match(end.stdout, /^list 77$/m);
		assert.match(end.stdout, /^allow 77$/m);
		assert.match(end.stdout, /^deny 77$/m);
		assert.match(end.stdout, /^200$/m);
		const codes = [...end.stdout.matchAll(/^raw (\d+)$/gm)].map((one) => one[1]);
		assert.ok(codes.length >= 1 && codes.every((code) => code === '401' || code === '403'), end.stdout);
		// Nor is a run given the scope when somebody asks for it.
		const wider = await cloche.api('POST', '/tasks/run', { instruction: 'true', scopes: ['approvals:write'] });
		const given = wider.status < 300 ? wider.body.task.run.scopes : [];
		assert.ok(!given.some((one) => one.startsWith('approvals')), String(wider.bytes));
		const answered = (await cloche.get('GET', `/sandboxes/${question.sandbox}/events?kind=approval.answered`)).items;
		assert.equal(answered.length, 1);
	});
});

describe('asking nobody', needs, () => {
	const held = withInternet('3s');

	test('what no person answers in time is denied, and said so', async () => {
		const { cloche, net } = held;
		const { id } = await cloche.create({ networkMode: 'ask', allow: ['example.test'] });
		net.clear();
		const execs = [await held.start(id, curl('http://other.test/')), await held.start(id, curl('http://other.test/'))];
		const question = await held.question('other.test');
		assert.ok(Date.parse(question.expiresAt) - Date.parse(question.askedAt) <= 3000);
		for (const exec of execs) assert.match(await held.ended(id, exec), /000/);
		const deny = (await held.decided(id, { verdict: 'deny', host: 'other.test' })).data;
		assert.equal(deny.rule, 'nobody allowed it in time');
		assert.match((await cloche.exec(id, 'cat /run/cloche/denials')).stdout, /other\.test.*nobody allowed it in time; .*cloche approval/);
		await until(async () => (await cloche.get('GET', '/approvals')).items.length === 0, 'nothing waits');
		const answers = (await cloche.get('GET', `/sandboxes/${id}/events?kind=approval.answered`)).items;
		assert.deepEqual(answers.map((one) => one.data.verdict), ['timeout']);
		assert.equal((await cloche.api('POST', `/approvals/${question.id}`, { verdict: 'allow' })).status, 404);
		assert.deepEqual(net.left(), []);
		assert.deepEqual(net.asked(), []);
		await held.remove(id);
	});

	test('nor is a question lost or longer with the daemon away', async () => {
		const { cloche } = held;
		const { id } = await cloche.create({ networkMode: 'ask', allow: ['example.test'] });
		const exec = await held.start(id, curl('http://other.test/'));
		await held.question('other.test');
		cloche.child.kill('SIGSTOP');
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await new Promise((resolve) => setTimeout(resolve, 4000));
		cloche.child.kill('SIGCONT');
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'the daemon is back');
		assert.match(await held.ended(id, exec), /000/);
		await held.decided(id, { verdict: 'deny', host: 'other.test', rule: 'nobody allowed it in time' });
		await held.remove(id);
	});
});
