// Repositories of tasks: cloned through the gateway, pushed, and a pull request, with a credential
// that is nowhere inside.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Daemon, filesWith } from './lib.mjs';
import { Forge, forgeConfig, runTask, section, stepOf } from './lib/forge.mjs';

describe('a repository of a task', () => {
	let forge, daemon;

	before(async () => {
		forge = await Forge.start();
		forge.make('org/app');
		forge.make('org/other');
		daemon = await Daemon.start({
			config: forgeConfig(section('hub', forge, 'secret = "env:CLOCHE_TEST_FORGE"')),
			env: { CLOCHE_TEST_FORGE: forge.token },
			listen: '127.0.0.1:0',
		});
	});
	after(async () => {
		await daemon?.stop();
		await forge?.stop();
	});

	test('is cloned, pushed to, and has one pull request', async () => {
		const task = await runTask(daemon, {
			instruction: 'cat README.md; echo more >> README.md; git commit -qam "more"; echo new > left',
			title: 'Say more', repository: 'org/app',
			pullRequest: { draft: true, labels: ['robot'] },
		});
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(task.stdout, '# hello\n');
		assert.equal(task.repository, `${forge.url.slice(7)}/org/app`);
		assert.equal(task.branch, `cloche/${task.id}`);
		const [pull] = forge.pulls;
		assert.equal(forge.pulls.length, 1);
		assert.equal(pull.title, 'Say more');
		assert.equal(pull.draft, true);
		assert.deepEqual(pull.labels, ['robot']);
		assert.equal(pull.base.ref, 'main');
		assert.equal(pull.head.ref, task.branch);
		assert.equal(task.pullRequest.url, pull.html_url);
		assert.equal(task.run.output.prUrl, pull.html_url);
		assert.deepEqual(forge.log('org/app', task.branch), [
			'Robot robot@example.org Say more', 'Robot robot@example.org more', 'Somebody somebody@example.org first']);
		assert.equal(task.pullRequest.commit, forge.git('org/app', 'rev-parse', task.branch).trim());
		assert.equal(stepOf(task, 'publish').detail, pull.html_url);
		const { items } = await daemon.get('GET', `/tasks/${task.id}/events`);
		const event = items.find((one) => one.kind === 'task.pull_request');
		assert.equal(event.data.url, pull.html_url);
	});

	test('without commits has no pull request, and says so', async () => {
		const count = forge.pulls.length;
		const task = await runTask(daemon, { instruction: 'true', repository: 'org/app' });
		assert.equal(task.status, 'completed');
		assert.equal(task.pullRequest.url, null);
		assert.match(task.pullRequest.note, /no commits/);
		assert.equal(forge.pulls.length, count);
		assert.ok(!forge.branches('org/app').includes(task.branch));
	});

	test('that is not there fails the step with words of git', async () => {
		const task = await runTask(daemon, { instruction: 'true', repository: 'org/missing' });
		assert.equal(task.status, 'failed');
		assert.equal(task.endReason, 'start_failed');
		assert.equal(stepOf(task, 'clone').status, 'failed');
		assert.match(stepOf(task, 'clone').detail, /clone: .*fatal: repository .* not found/);
	});

	test('can only be read without the scope to write', async () => {
		const count = forge.pulls.length;
		const task = await runTask(daemon, {
			instruction: 'echo x > x; git add x; git commit -qm x; git push 2>&1; echo status $?',
			repository: 'org/app', scopes: ['tasks:read', 'repositories:read'],
		});
		assert.equal(task.status, 'completed');
		assert.match(task.stdout, /remote: this run may read org\/app and not push to it: it has no scope repositories:write/);
		assert.match(task.stdout, /status 1/);
		assert.equal(forge.pulls.length, count);
		const refused = await daemon.api('POST', '/tasks/run', {
			instruction: 'true', repository: 'org/app', createPr: true, scopes: ['repositories:read'] });
		assert.equal(refused.status, 403);
		const none = await daemon.api('POST', '/tasks/run', { instruction: 'true', repository: 'org/app', scopes: ['tasks:read'] });
		assert.equal(none.status, 403);
		assert.match(none.body.detail, /repositories:read/);
	});

	test('is the only one that is reached, in its one form', async () => {
		const before = forge.requests.length;
		const targets = [
			'org/other.git/info/refs?service=git-upload-pack', 'org/app.git/../other.git/info/refs?service=git-upload-pack',
			'org/app.git/%2e%2e/other.git/info/refs?service=git-upload-pack', 'org%2fother.git/info/refs?service=git-upload-pack',
			'org/app.git%2f..%2fother.git/info/refs?service=git-upload-pack', '/org/app.git/info/refs?service=git-upload-pack',
			'org/app.git/info/refs', 'org/app.git/info/refs?service=git-upload-archive', 'org/app.git/HEAD',
			'org/app.git/objects/info/packs', 'org/app.git/info/refs?service=git-upload-pack&x=1', 'org/app.git/info/lfs/objects/batch',
			'org/app/info/refs?service=git-upload-pack', 'org/app.git/info/refs?x=1&service=git-upload-pack', 'org/APP.git/info/refs?service=git-upload-pack',
			'api/v3/user', '', 'org/app.git/git-upload-pack',
		];
		const task = await runTask(daemon, {
			instruction: targets.map((target) => `curl -s -o /dev/null -w '%{http_code}\\n' --path-as-is 'http://git.cloche.internal/${target}'`).join('\n'),
			repository: 'org/app', createPr: false,
		});
		assert.deepEqual(task.stdout.trim().split('\n'), targets.map(() => '403'));
		const asked = forge.requests.slice(before).map((one) => one.path);
		assert.ok(asked.length > 0 && asked.every((one) => /^\/org\/app\.git\/(info\/refs\?service=)?git-upload-pack$/.test(one)), asked.join('\n'));
	});

	test('is pushed to on the branch of the run, and nowhere else', async () => {
		const main = forge.git('org/app', 'rev-parse', 'main');
		const zero = '0'.repeat(40);
		const task = await runTask(daemon, {
			instruction: `git commit -q --allow-empty -m mine; new=$(git rev-parse HEAD)
push() { git push -q "$@" 2>&1; echo "[$1 $2 $?]"; }
push origin HEAD:main; push origin HEAD:refs/heads/other; push origin HEAD:refs/tags/v1; push origin :main; push origin HEAD HEAD:main; push --mirror origin; push --force origin HEAD:main
git config push.gpgSign true; push origin HEAD; git config --unset push.gpgSign
line() { printf '%04x%s' $((\${#1} + 4)) "$1"; }
ask() { curl -s -w '[%{http_code}]\n' "$@" http://git.cloche.internal/org/app.git/git-receive-pack -H 'content-type: application/x-git-receive-pack-request'; }
line "${zero} $new refs/heads/raw" > raw; printf 0000 >> raw; ask --data-binary @raw
gzip -c raw > raw.gz; ask --data-binary @raw.gz -H 'content-encoding: gzip'
ask --data-binary 00; ask --data-binary ffff; ask --data-binary 'PACK and more'; ask -H 'transfer-encoding: chunked' --data-binary @raw
{ i=0; while [ $i -lt 400 ]; do line "${zero} $new refs/heads/$CLOCHE_BRANCH"; i=$((i + 1)); done; printf 0000; } > many; ask --data-binary @many
push origin HEAD`,
			repository: 'org/app', createPr: false, branch: 'robot/own',
		});
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.equal(task.stdout.match(/remote: this run pushes to its branch 'robot\/own' and to nothing else, not to refs\/(heads\/main|heads\/other|tags\/v1)/g)?.length >= 5, true, task.stdout);
		assert.match(task.stdout, /not to refs\/heads\/raw\n0000\[200\]\n[^]*\[400\]\n[^]*\[400\]\n[^]*\[400\]\n[^]*\[400\]\n[^]*not to refs\/heads\/raw\n0000\[200\]\n[^]*too many references[^]*\[400\]\n/);
		const { items } = await daemon.get('GET', '/events?limit=1000');
		assert.ok(items.some(({ kind, data }) => kind === 'sandbox.service' && data.service === 'git' && data.status === 403 && /git-receive-pack$/.test(data.path)), 'on record');
		assert.match(task.stdout, /\[origin HEAD 0\]\n$/);
		assert.equal(forge.git('org/app', 'rev-parse', 'main'), main);
		assert.ok(!forge.branches('org/app').some((name) => /^(other|raw)$/.test(name)) && forge.git('org/app', 'tag') === '');
		assert.deepEqual(forge.log('org/app', 'robot/own').length, 2);
	});

	test('of another place needs a run, and one that has a repository', async () => {
		const task = await runTask(daemon, { instruction: "curl -s http://git.cloche.internal/org/app.git/info/refs?service=git-upload-pack" });
		assert.match(task.stdout, /no run with a repository/);
		const submodule = await runTask(daemon, {
			instruction: 'git clone -q http://git.cloche.internal/org/other.git 2>&1; git -c http.extraHeader="Authorization: Basic eDp5" ls-remote 2>&1 >/dev/null && echo own is fine',
			repository: 'org/app', createPr: false });
		assert.match(submodule.stdout, /this run has .*org\/app\.git and nothing else/);
		assert.match(submodule.stdout, /own is fine/);
	});

	test('that uses LFS has pointers, and nothing else is pushed in their place', async () => {
		const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'ab'.repeat(32)}\nsize 12345\n`;
		forge.make('org/lfs', { 'media/.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n', 'media/a.bin': pointer, 'README.md': 'x\n' });
		const good = await runTask(daemon, { instruction: 'head -1 media/a.bin; echo more >> README.md', repository: 'org/lfs' });
		assert.equal(good.status, 'completed', JSON.stringify(good.run.steps));
		assert.match(stepOf(good, 'clone').detail, /^org\/lfs, branch .*; files of Git LFS are pointers$/);
		assert.match(good.stdout, /^version https:\/\/git-lfs/);
		const bad = await runTask(daemon, { instruction: 'head -c 1000 /dev/urandom > media/a.bin', repository: 'org/lfs' });
		assert.deepEqual([bad.status, bad.endReason], ['failed', 'publish_failed']);
		assert.match(bad.run.detail, /Git LFS is not passed on, and these files belong to it: media\/a\.bin/);
		assert.ok(!forge.branches('org/lfs').includes(bad.branch));
		assert.ok(!/LFS/.test(stepOf(await runTask(daemon, { instruction: 'true', repository: 'org/app' }), 'clone').detail));
	});

	test('that moved is not followed', async () => {
		forge.make('org/moved');
		forge.redirect = 'org/moved';
		const task = await runTask(daemon, { instruction: 'true', repository: 'org/moved' });
		forge.redirect = null;
		assert.equal(task.status, 'failed');
		assert.match(stepOf(task, 'clone').detail, /leads to another place/);
		assert.ok(!forge.requests.some((one) => one.path.startsWith('/elsewhere')));
	});

	test('shows its credential to nobody', async () => {
		const coded = Buffer.from(`x-access-token:${forge.token}`).toString('base64');
		const task = await runTask(daemon, {
			instruction: `git fetch -q; git push -q; cat .git/config; env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n';
for p in /proc/[0-9]*; do grep -E '^[0-9a-f]+-[0-9a-f]+ rw' $p/maps 2>/dev/null | while IFS='- ' read a b rest; do
dd if=$p/mem bs=4096 skip=$((0x$a / 4096)) count=$(((0x$b - 0x$a) / 4096)) 2>/dev/null | head -c 4000000; done | grep -a -o -e 'gh''p_[0-9a-f]*' -e 'x-access-tok''en' -e 'Authoriz''ation: [BT].*'; done; echo looked`,
			repository: 'org/app', branch: 'looking',
		});
		assert.equal(task.status, 'completed', JSON.stringify(task.run.steps));
		assert.match(task.stdout, /looked/);
		for (const text of [JSON.stringify(task), daemon.log, JSON.stringify(await daemon.get('GET', '/events?limit=500'))]) {
			assert.ok(!text.includes(forge.token) && !text.includes(coded), 'the credential is shown');
			assert.ok(!/x-access-token/.test(text));
		}
		// The disks of sandboxes are among these files.
		assert.deepEqual(filesWith(daemon.state, [forge.token, coded]), []);
		assert.notDeepEqual(filesWith(daemon.state, ['robot@example.org']), [], 'the search finds what is there');
	});
});
