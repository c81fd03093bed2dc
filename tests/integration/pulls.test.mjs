// Pull requests: other forges and credentials, agents with a model, runs that go on with a branch, and crashes.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, filesWith, residentBytes, until } from './lib.mjs';
import { Forge, forgeConfig, runTask, section, stepOf, taskOver } from './lib/forge.mjs';
import { Model, providers } from './lib/model.mjs';

const CHANGE = 'date +%N >> log; cat /proc/sys/kernel/random/uuid >> log; git add log; git commit -qm "a line"';

describe('pull requests', () => {
	let forge, gitea, app, keys, model, daemon;

	before(async () => {
		keys = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
		forge = await Forge.start();
		gitea = await Forge.start({ kind: 'gitea', token: crypto.randomBytes(20).toString('hex') });
		app = await Forge.start({ app: { id: '4711', publicKey: keys.publicKey } });
		model = await Model.start({ script: { default: [{ shell: 'echo from a model > model.txt' }, { text: 'Done.' }] } });
		for (const one of [forge, gitea, app]) one.make('org/app');
		forge.make('org/other');
		daemon = new Daemon({ listen: '127.0.0.1:0', env: { CLOCHE_TEST_FORGE: forge.token, CLOCHE_TEST_GITEA: gitea.token } });
		const key = path.join(daemon.folder, 'app.pem');
		fs.writeFileSync(key, keys.privateKey.export({ type: 'pkcs1', format: 'pem' }));
		fs.chmodSync(key, 0o644);
		daemon.configure(forgeConfig([
			section('hub', forge, 'secret = "env:CLOCHE_TEST_FORGE"'),
			section('tea', gitea, 'secret = "env:CLOCHE_TEST_GITEA"'),
			section('app', app, `app_id = 4711\nkey_file = "${key}"`),
			section('kept', forge, 'secret = "sealed"').replace(forge.url, `${forge.url}/kept`),
			section('lost', forge, 'secret = "file:/nonexistent"').replace(forge.url, `${forge.url}/lost`),
			providers(model.url, 'default_model = "default"\n'),
		].join('')));
		await daemon.serve();
	});
	after(async () => {
		await daemon?.discard();
		for (const one of [forge, gitea, app, model]) await one?.stop();
	});

	test('are opened on Gitea, with labels that are there or made', async () => {
		gitea.labels.push({ id: 1, name: 'old' });
		const task = await runTask(daemon, {
			instruction: CHANGE, title: 'On tea', repository: `${gitea.url}/org/app.git`, branch: 'feature/one',
			pullRequest: { draft: true, labels: ['old', 'new'], body: 'Why.' }, commitAs: { name: 'A B', email: 'a@example.org' },
		});
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(gitea.pulls.length, 1);
		assert.equal(gitea.pulls[0].title, 'WIP: On tea');
		assert.equal(gitea.pulls[0].body, 'Why.');
		assert.deepEqual(gitea.pulls[0].labels, ['old', 'new']);
		assert.deepEqual(gitea.log('org/app', 'feature/one'), ['A B a@example.org a line', 'Somebody somebody@example.org first']);
		const again = await runTask(daemon, { instruction: CHANGE, repository: `${gitea.url}/org/app`, branch: 'feature/one' });
		assert.equal(again.pullRequest.url, gitea.pulls[0].html_url);
		assert.equal(gitea.pulls.length, 1);
		assert.equal(gitea.log('org/app', 'feature/one').length, 3);
	});

	test('are opened for an agent with a model', async () => {
		const task = await runTask(daemon, { instruction: 'write it', title: 'By a model', agent: 'cloche-agent', repository: 'org/app' });
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(forge.git('org/app', 'show', `${task.branch}:model.txt`), 'from a model\n');
		assert.ok(forge.pulls.some((pull) => pull.html_url === task.pullRequest.url));
	});

	test('of a session that ends well', async () => {
		const session = await daemon.get('POST', '/sessions', { prompt: 'write it', repository: 'org/app', branch: 'of-a-session', createPr: true });
		const id = session.id ?? session.session.id;
		await daemon.get('POST', `/sessions/${id}/end`, {});
		const task = await taskOver(daemon, id);
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(forge.git('org/app', 'show', 'of-a-session:model.txt'), 'from a model\n');
		assert.ok(task.pullRequest.url);
	});

	test('with a token of an app, for one run and one repository, revoked after it', async () => {
		const task = await runTask(daemon, { instruction: `${CHANGE}; git ls-remote >/dev/null`, repository: `${app.url}/org/app` });
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(app.pulls.length, 1);
		assert.equal(app.minted.size, 1);
		const [[token, minted]] = app.minted;
		assert.deepEqual(minted.repositories, ['app']);
		assert.deepEqual(minted.permissions, { contents: 'write', pull_requests: 'write' });
		await until(() => minted.revoked, 'the token is revoked');
		assert.deepEqual(filesWith(daemon.state, [token]), []);
		const reader = await runTask(daemon, {
			instruction: 'git ls-remote >/dev/null && echo read', repository: `${app.url}/org/app`, scopes: ['repositories:read'] });
		assert.equal(reader.stdout, 'read\n');
		assert.deepEqual([...app.minted.values()].at(-1).permissions, { contents: 'read' });
		assert.equal(app.minted.size, 2);
	});

	test('with a credential that is not there, or not accepted, are errors that say so', async () => {
		const lost = await runTask(daemon, { instruction: 'true', repository: `${forge.url}/lost/org/app` });
		assert.match(stepOf(lost, 'clone').detail, /the secret of forge lost cannot be read/);
		const { token } = forge;
		forge.token = 'another';
		const refused = await runTask(daemon, { instruction: 'true', repository: 'org/app' });
		assert.match(stepOf(refused, 'clone').detail, /does not accept the credential/);
		assert.equal((await daemon.cli(['forge', 'test', 'hub'])).code !== 0, true);
		forge.token = token;
		assert.equal((await daemon.cli(['forge', 'test', 'hub'])).code, 0);
		assert.equal((await daemon.cli(['forge', 'test', 'app'])).code, 0);
		assert.match(await daemon.ok(['forge', 'list']), /tea +gitea +http/);
	});

	test('that fail are a reason of their own, and can be made up for', async () => {
		forge.refuse = 403;
		const failed = await runTask(daemon, { instruction: CHANGE, repository: 'org/app', branch: 'refused' });
		delete forge.refuse;
		assert.deepEqual([failed.status, failed.endReason, failed.exitCode], ['failed', 'publish_failed', 0]);
		assert.match(failed.run.detail, /the pull request: forge hub answers 403: Not allowed/);
		const again = await runTask(daemon, { instruction: 'true', resumeFrom: failed.id });
		assert.equal(again.status, 'completed', JSON.stringify(again.run.steps));
		assert.ok(forge.pulls.some((pull) => pull.html_url === again.pullRequest.url));
		const none = await runTask(daemon, { instruction: 'true', repository: 'org/app', env: { PATH: '/nowhere' } });
		assert.match(stepOf(none, 'clone').detail, /this image has no git/);
	});

	test('with a credential that is sealed', async () => {
		const early = await runTask(daemon, { instruction: 'true', repository: `${forge.url}/kept/org/app` });
		assert.match(stepOf(early, 'clone').detail, /the secret of forge kept cannot be read/);
		assert.equal((await daemon.api('PUT', '/forges/hub/secret', { value: 'x' })).status, 409);
		assert.equal((await daemon.api('PUT', '/forges/kept/secret', { value: 'a\nb' })).status, 400);
		await daemon.ok(['forge', 'seal', 'kept'], { input: `${forge.token}\n` });
		assert.equal((await daemon.cli(['forge', 'test', 'kept'])).code, 0);
		assert.deepEqual(filesWith(daemon.state, [forge.token]), []);
	});

	test('of a run that goes on with the files and the branch of another', async () => {
		const first = await runTask(daemon, { instruction: `${CHANGE}; exit 3`, repository: 'org/app' });
		assert.equal(first.endReason, 'agent_error');
		assert.ok(!forge.branches('org/app').includes(first.branch), 'nothing is pushed of a run that failed');
		assert.equal(first.run.resume.branch, first.branch);
		const wrong = await daemon.api('POST', '/tasks/run', { instruction: 'true', resumeFrom: first.id, branch: 'another' });
		assert.equal(wrong.status, 400);
		const second = await runTask(daemon, { instruction: `git log --oneline | wc -l; ${CHANGE}`, resumeFrom: first.id });
		assert.equal(second.status, 'completed', JSON.stringify(second.run.steps));
		assert.equal(second.stdout.trim(), '2');
		assert.equal(second.branch, first.branch);
		assert.notEqual(second.run.token, first.run.token);
		assert.equal(forge.log('org/app', first.branch).length, 3);
		const third = await runTask(daemon, { instruction: CHANGE, resumeFrom: second.id });
		assert.equal(third.pullRequest.url, second.pullRequest.url, 'the pull request that is there');
		assert.equal(forge.log('org/app', first.branch).length, 4);
	});

	test('of a run that was lost, gone on with: the same branch and the same pull request', async () => {
		const count = forge.pulls.length;
		const first = await runTask(daemon, { instruction: CHANGE, repository: 'org/app', branch: 'lost' });
		assert.equal(forge.pulls.length, count + 1);
		const { task } = await daemon.get('POST', '/tasks/run', { instruction: `${CHANGE}; echo kept > kept; sync; echo ready; sleep 300`, resumeFrom: first.id });
		const begun = await until(async () => {
			const { task: now } = await daemon.get('GET', `/tasks/${task.id}`);
			return now.run.step === 'wait' && (await daemon.api('GET', `/sandboxes/${now.run.sandbox}/files?path=/workspace/app/kept`)).status === 200 && now;
		}, 'it wrote', 60000);
		await daemon.get('POST', `/sandboxes/${begun.run.sandbox}/stop`, { graceMs: 0 });
		assert.equal((await taskOver(daemon, task.id)).endReason, 'sandbox_lost');
		const third = await runTask(daemon, { instruction: 'cat kept; git log --oneline | wc -l', resumeFrom: task.id });
		assert.equal(third.status, 'completed', JSON.stringify(third.run.steps));
		assert.equal(third.stdout, 'kept\n3\n');
		assert.deepEqual([third.branch, third.pullRequest.url], ['lost', first.pullRequest.url]);
		assert.equal(new Set([first, begun, third].map((one) => one.run.token)).size, 3, 'each with a token of its own');
		assert.equal(forge.pulls.length, count + 1);
		assert.equal(third.pullRequest.commit, forge.git('org/app', 'rev-parse', 'lost').trim());
		assert.equal(forge.log('org/app', 'lost').length, 4, 'what it left is committed and pushed');
	});

	test('of a task from inside another: its repository and no other', async () => {
		const task = await runTask(daemon, {
			instruction: `cloche task run --wait --repository org/app --no-pr 'cat README.md'
cloche task run --wait --repository org/other true 2>&1; echo status $?`,
			repository: 'org/app', createPr: false,
		});
		assert.match(task.stdout, /# hello/);
		assert.match(task.stdout, /org\/other/);
		assert.match(task.stdout, /status [1-9]/);
		const none = await runTask(daemon, { instruction: 'cloche task run --wait --repository org/app true 2>&1; echo status $?' });
		assert.match(none.stdout, /status [1-9]/);
	});

	test('need another branch than their base, and what belongs together', async () => {
		const task = await runTask(daemon, { instruction: 'true', repository: 'org/app', branch: 'main' });
		assert.equal(task.status, 'failed');
		assert.match(stepOf(task, 'clone').detail, /'main' is the base/);
		for (const [body, pattern] of [
			[{ branch: 'x' }, /needs a repository/], [{ createPr: true }, /needs a repository/],
			[{ repository: 'org/app', branch: '-x' }, /branch/], [{ repository: 'org/app', branch: 'a..b' }, /branch/],
			[{ repository: 'org' }, /org\/name/], [{ repository: '../etc/passwd' }, /org\/name/], [{ repository: 'https://example.org/org/app' }, /no forge/],
			[{ repository: 'org/app', pullRequest: { labels: [''] } }, /labels/], [{ repository: 'org/app', commitAs: { name: 'a\nb', email: 'x' } }, /commitAs/],
		]) {
			const answer = await daemon.api('POST', '/tasks/run', { instruction: 'true', ...body });
			assert.equal(answer.status, 400, JSON.stringify(body));
			assert.match(answer.body.detail, pattern);
		}
	});

	for (const [held, what] of [['find', 'before it is asked for'], ['pull', 'while it is made, unheard']])
		test(`are opened once when the daemon is killed after the push, ${what}`, async () => {
			let release;
			forge.hold[held] = new Promise((resolve) => (release = resolve));
			const count = forge.pulls.length;
			const { task } = await daemon.get('POST', '/tasks/run', { instruction: CHANGE, repository: 'org/app', branch: `killed-${held}` });
			const method = held === 'find' ? 'GET' : 'POST';
			const asked = forge.requests.length;
			await until(() => forge.requests.slice(asked - 1).some((one) => one.method === method && one.path.includes('/pulls')), 'the forge is asked', 60000);
			process.kill(daemon.daemonProcess().pid, 'SIGKILL');
			release();
			delete forge.hold[held];
			await until(async () => (await daemon.api('GET', '/health').catch(() => ({}))).status === 200, 'the daemon is back', 60000);
			const over = await taskOver(daemon, task.id);
			assert.equal(over.status, 'completed', JSON.stringify(over.run.steps));
			assert.equal(forge.pulls.length, count + 1);
			assert.equal(over.pullRequest.url, forge.pulls.at(-1).html_url);
			assert.equal(forge.log('org/app', `killed-${held}`).length, 2, 'and one push');
		});

	for (const [held, method, what, known] of [
		['push', 'POST', /receive-pack/, /before the end of the push/],
		['find', 'GET', /\/pulls/, /the pull request may be open/],
		['pull', 'POST', /\/pulls/, /the pull request may be open/],
	])
		test(`are given up when somebody stops their run (${held}), and opened once by one that goes on`, async () => {
			let release;
			const count = forge.pulls.length, asked = forge.requests.length;
			forge.hold[held] = new Promise((resolve) => (release = resolve));
			const { task } = await daemon.get('POST', '/tasks/run', { instruction: CHANGE, repository: 'org/app', branch: `stopped-${held}` });
			await until(() => forge.requests.slice(asked).some((one) => one.method === method && what.test(one.path) && !/info\/refs/.test(one.path)) ||
				(held === 'push' && forge.requests.slice(asked).some((one) => /service=git-receive-pack/.test(one.path))), 'the forge is asked', 60000);
			assert.equal((await daemon.cli(['task', 'stop', task.id, '--reason', 'not that'])).code, 0);
			const over = await taskOver(daemon, task.id);
			assert.deepEqual([over.status, over.endReason, over.run.detail], ['cancelled', 'stopped', 'not that']);
			assert.deepEqual([stepOf(over, 'publish').status, stepOf(over, 'publish').detail], ['failed', 'not that']);
			assert.match(over.pullRequest.note, known);
			assert.equal(over.pullRequest.url, null);
			release();
			delete forge.hold[held];
			const again = await runTask(daemon, { instruction: 'true', resumeFrom: task.id });
			assert.equal(again.status, 'completed', JSON.stringify(again.run.steps));
			assert.equal(forge.pulls.length, count + 1, 'one pull request');
			assert.equal(again.pullRequest.url, forge.pulls.at(-1).html_url);
			assert.equal(forge.log('org/app', `stopped-${held}`).length, 2, 'and one push');
		});

	test('are not opened any more when the key of their run is revoked', async () => {
		let release;
		const count = forge.pulls.length, asked = forge.requests.length;
		const made = await daemon.key({ name: 'short', operator: true });
		forge.hold.find = new Promise((resolve) => (release = resolve));
		const { task } = await (await daemon.as(made.secret)).expect(202, 'POST', '/tasks/run', { instruction: CHANGE, repository: 'org/app', branch: 'revoked' });
		await until(() => forge.requests.slice(asked).some((one) => one.path.includes('/pulls')), 'the forge is asked', 60000);
		await daemon.get('DELETE', `/keys/${made.id}`);
		const over = await taskOver(daemon, task.id);
		release();
		delete forge.hold.find;
		assert.deepEqual([over.status, over.endReason], ['failed', 'policy']);
		assert.equal(forge.pulls.length, count);
	});

	test('of a big repository stream through the daemon', async () => {
		forge.make('org/big', { data: crypto.randomBytes(24 << 20) });
		const { pid } = daemon.daemonProcess();
		const before = residentBytes(pid);
		const task = await runTask(daemon, { instruction: 'wc -c < data; head -c 10000000 /dev/urandom > more', repository: 'org/big', timeout: 300000 });
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(task.stdout.trim(), String(24 << 20));
		assert.ok(residentBytes(pid) - before < 16 << 20, `${residentBytes(pid) - before} bytes more`);
	});
});
