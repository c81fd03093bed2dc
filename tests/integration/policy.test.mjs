// Policies end to end, on an internet of our own: what people see, change, learn and approve.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, cgroupsNamed, isRoot, until } from './lib.mjs';

const A = '93.184.216.34';
const B = '93.184.216.35';
const curl = (url) => `curl -s -S --max-time 20 -o /dev/null -w '%{http_code}' ${url}`;

describe('network policies, seen from outside', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let net;
	let cloche;
	before(async () => {
		net = await Internet.start();
		await net.names({ 'example.test': { a: [A] }, 'other.test': { a: [B] }, 'learn.test': { a: [B] } });
		cloche = await Daemon.start({ config: `[network]\nresolvers = ["${RESOLVER}"]\n[sandboxes.default]\npool = 1\n`, enter: net.site.pid });
		// Whatever happens below must happen there.
		assert.equal(fs.readlinkSync(`/proc/${cloche.child.pid}/ns/net`), fs.readlinkSync(`/proc/${net.site.pid}/ns/net`));
	});
	after(async () => {
		await cloche?.stop();
		await net?.stop();
	});

	const exec = async (sandbox, shell) => (await cloche.exec(sandbox.id, shell)).stdout;
	const decisions = async (sandbox) => (await cloche.get('GET', `/sandboxes/${sandbox.id}/events?kind=sandbox.network&limit=1000`)).items.map((one) => one.data);
	const decided = (sandbox, wanted) =>
		until(async () => (await decisions(sandbox)).find((one) => Object.entries(wanted).every(([key, value]) => one[key] === value)), `a decision ${JSON.stringify(wanted)}`);

	test('a decision tells host, address, port, program, rule and verdict', async () => {
		const sandbox = await cloche.create({ allow: ['example.test'] });
		assert.equal(await exec(sandbox, curl('http://example.test/')), '200');
		const allowed = await decided(sandbox, { verdict: 'allow', proto: 'tcp', host: 'example.test' });
		assert.equal(allowed.address, A);
		assert.equal(allowed.port, 80);
		assert.match(allowed.rule, /allow example\.test \(this sandbox\)/);
		assert.match(allowed.program ?? 'curl', /curl/); // absent when it could not be found out in time
		const closed = await decided(sandbox, { verdict: 'closed', host: 'example.test' });
		assert.ok(closed.sent > 50 && closed.received > 50);
		assert.notEqual(await exec(sandbox, curl('http://other.test/')), '200');
		const denied = await decided(sandbox, { verdict: 'deny', host: 'other.test' });
		assert.match(denied.remedy, /--allow other\.test/);
		assert.match(await cloche.ok(['sandbox', 'net', sandbox.id]), /deny .*other\.test/);
		assert.match(await cloche.ok(['sandbox', 'info', sandbox.id]), /traffic: +.* out, .* in, 1 connections, \d+ denied/);
		assert.match(await exec(sandbox, 'cat /run/cloche/denials'), /other\.test.*--allow other\.test/);
		const hosts = (await cloche.get('GET', `/sandboxes/${sandbox.id}/network`)).hosts;
		const use = hosts.find((one) => one.host === 'example.test' && one.proto === 'tcp');
		assert.equal(use.connections, 1);
		assert.ok(use.received > 50);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});

	test('changed while it runs; the environment changes the next one only', async () => {
		await cloche.get('POST', '/environments', { name: 'live', allowedDomains: ['example.test'] });
		const sandbox = await cloche.create({ network: 'live' });
		const first = (await cloche.get('GET', `/sandboxes/${sandbox.id}`)).networkPolicy;
		assert.equal(first.generation, 1);
		await cloche.get('PATCH', '/environments/live', { allowedDomains: ['other.test'] });
		assert.equal(await exec(sandbox, curl('http://example.test/')), '200', 'the running one keeps what it has');
		const changed = await cloche.get('PUT', `/sandboxes/${sandbox.id}/network`, { allow: ['other.test'], network: 'none' });
		assert.equal(changed.networkPolicy.generation, 2);
		assert.notEqual(changed.networkPolicy.fingerprint, first.fingerprint);
		assert.equal(await exec(sandbox, curl('http://other.test/')), '200');
		assert.notEqual(await exec(sandbox, curl('http://example.test/')), '200');
		const bad = await cloche.api('PUT', `/sandboxes/${sandbox.id}/network`, { allow: ['10.0.0.1'] });
		assert.equal(bad.status, 400);
		assert.equal((await cloche.get('GET', `/sandboxes/${sandbox.id}`)).networkPolicy.fingerprint, changed.networkPolicy.fingerprint);
		assert.equal(await exec(sandbox, curl('http://other.test/')), '200', 'the old one stays in force');
		// Resolved anew at the next start, with what the sandbox itself added.
		await cloche.get('PUT', `/sandboxes/${sandbox.id}/network`, { allow: [], network: 'live' });
		await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 0 });
		await cloche.get('PATCH', '/environments/live', { allowedDomains: ['example.test', 'learn.test'] });
		await cloche.get('POST', `/sandboxes/${sandbox.id}/start`);
		assert.equal(await exec(sandbox, curl('http://learn.test/')), '200');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
		await cloche.get('DELETE', '/environments/live');
	});

	test('a policy that an attempt from inside does not prove is not confirmed, and nothing leaves', async () => {
		const sandbox = await cloche.create({ allow: ['example.test'] });
		const { networkPolicy } = await cloche.get('GET', `/sandboxes/${sandbox.id}`);
		const pids = cgroupsNamed([sandbox.id]).flatMap((group) => fs.readFileSync(`${group}/cgroup.procs`, 'utf8').split('\n').filter(Boolean));
		const init = pids.find((pid) => fs.readFileSync(`/proc/${pid}/comm`, 'utf8') === 'cloche-init\n');
		// Without the route nothing that leaves a program comes by the gateway: no rule would hold.
		execFileSync('nsenter', ['-t', init, '-n', 'ip', 'route', 'del', 'local', 'default', 'table', 'local']);
		const answer = await cloche.api('PUT', `/sandboxes/${sandbox.id}/network`, { allow: ['example.test', 'other.test'] });
		assert.ok(answer.status >= 500, `${answer.status} ${answer.bytes}`);
		assert.match(answer.body.detail, /^nothing leaves, for no policy could be proved from inside: /);
		assert.equal((await cloche.get('GET', `/sandboxes/${sandbox.id}`)).networkPolicy.fingerprint, networkPolicy.fingerprint);
		execFileSync('nsenter', ['-t', init, '-n', 'ip', 'route', 'add', 'local', 'default', 'dev', 'lo', 'src', '192.0.0.2', 'table', 'local']);
		net.clear();
		assert.notEqual(await exec(sandbox, curl('http://example.test/')), '200');
		assert.deepEqual(net.left(), []);
		// With the wall up again the next one is proved.
		await cloche.get('PUT', `/sandboxes/${sandbox.id}/network`, { allow: ['other.test'] });
		assert.equal(await exec(sandbox, curl('http://other.test/')), '200');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});

	test('a policy survives kill -9 of the daemon, and its decisions go on', async () => {
		const sandbox = await cloche.create({ allow: ['example.test'] });
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		assert.equal(await until(() => exec(sandbox, curl('http://example.test/')), 'the daemon is back'), '200');
		assert.notEqual(await exec(sandbox, curl('http://other.test/')), '200');
		await decided(sandbox, { verdict: 'deny', host: 'other.test' });
		const changed = await cloche.get('PUT', `/sandboxes/${sandbox.id}/network`, { allow: ['other.test'] });
		assert.equal(changed.networkPolicy.generation, 2);
		assert.equal(await exec(sandbox, curl('http://other.test/')), '200');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});

	test('record, learn, replay without a denial', async () => {
		const work = `${curl('http://example.test/')}; ${curl('http://learn.test:8080/')}; getent hosts other.test`;
		const sandbox = await cloche.create({ networkMode: 'record' });
		assert.match(await exec(sandbox, work), /^200200/);
		assert.notEqual(await exec(sandbox, curl('http://169.254.169.254/')), '200', 'never metadata');
		await decided(sandbox, { verdict: 'allow', host: 'learn.test', proto: 'tcp' });
		const learned = await cloche.ok(['env', 'learn', sandbox.id, '--name', 'learned']);
		assert.match(learned, /example\.test +80 +tcp +1/);
		const environment = await cloche.get('GET', '/environments/learned');
		assert.deepEqual(environment.allowedDomains.sort(), ['example.test:80', 'learn.test:8080', 'other.test']);
		assert.deepEqual(environment.ports, []);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
		const replay = await cloche.create({ network: 'learned' });
		assert.match(await exec(replay, work), /^200200/);
		await decided(replay, { verdict: 'closed', host: 'learn.test' });
		assert.deepEqual((await decisions(replay)).filter((one) => one.verdict === 'deny'), []);
		assert.notEqual(await exec(replay, curl('http://learn.test/')), '200', 'another port was not learned');
		// One that is gone can still be learned from.
		assert.equal((await cloche.api('POST', `/sandboxes/${sandbox.id}/network/learn`, { name: 'again' })).status, 201);
		await cloche.get('DELETE', `/sandboxes/${replay.id}?force=true`);
	});

	const pending = () => until(async () => (await cloche.get('GET', '/approvals')).items[0], 'a question');

	test('a question outlives the daemon that was asked', async () => {
		const sandbox = await cloche.create({ networkMode: 'ask' });
		const { id: exec } = await cloche.get('POST', `/sandboxes/${sandbox.id}/execs`, { shell: curl('http://other.test/'), background: true });
		const before = await pending();
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await cloche.api('GET', '/health')).status === 200, 'the daemon is back');
		const again = await pending();
		assert.notEqual(again.id, before.id);
		assert.equal(again.host, 'other.test');
		await cloche.ok(['approval', 'allow', again.id]);
		await until(async () => (await cloche.get('GET', `/sandboxes/${sandbox.id}/execs/${exec}`)).state === 'ended', 'the command ends');
		assert.equal(String((await cloche.api('GET', `/sandboxes/${sandbox.id}/logs?exec=${exec}`)).bytes), '200');
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});

	test('ask: held until a person answers', async () => {
		await cloche.get('POST', '/environments', { name: 'asking', allowedDomains: ['example.test'], mode: 'ask' });
		const sandbox = await cloche.create({ network: 'asking' });
		assert.equal(await exec(sandbox, curl('http://example.test/')), '200', 'what is listed does not ask');
		let first = exec(sandbox, curl('http://other.test/'));
		let question = await pending();
		assert.equal(question.sandbox, sandbox.id);
		assert.equal(question.host, 'other.test');
		await cloche.ok(['approval', 'deny', question.id]);
		assert.notEqual(await first, '200');
		first = exec(sandbox, curl('http://other.test/'));
		question = await pending();
		assert.match(await cloche.ok(['approval', 'list']), /other\.test/);
		await cloche.ok(['approval', 'allow', '--for', 'environment', question.id]);
		// The name and the connection may be asked about one after the other.
		while ((await Promise.race([first, pending().catch(() => undefined)])) !== undefined && (await cloche.get('GET', '/approvals')).items.length) await cloche.ok(['approval', 'allow', '--for', 'environment', (await pending()).id]);
		assert.equal(await first, '200');
		assert.equal(await exec(sandbox, curl('http://other.test/')), '200', 'and does not ask again');
		assert.ok((await cloche.get('GET', '/environments/asking')).allowedDomains.some((one) => one.startsWith('other.test')));
		const kinds = (await cloche.get('GET', `/sandboxes/${sandbox.id}/events?limit=1000`)).items.map((one) => one.kind);
		assert.ok(kinds.includes('approval.asked') && kinds.includes('approval.answered') && kinds.includes('sandbox.policy'));
		assert.equal((await cloche.api('POST', `/approvals/${question.id}`, { verdict: 'allow' })).status, 404);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=true`);
	});
});
