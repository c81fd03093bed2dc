// Skills: from the operator's folder and the API into the three places where agents look, read-only.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { Forge, section, taskOver } from './lib/forge.mjs';

const front = (name, description = 'what it is good for') => `---\nname: ${name}\ndescription: ${description}\nlicense: MIT\n---\n# ${name}\n`;
const PLACES = ['/scripts/plugins/cloche/skills', '/home/agent/.agents/skills', '/home/agent/.claude/skills'];

describe('skills', () => {
	let daemon, forge;
	const WAIT = { headers: { prefer: 'wait=60' } };

	before(async () => {
		forge = await Forge.start();
		daemon = new Daemon({ listen: '127.0.0.1:0', env: { CLOCHE_TEST_FORGE: forge.token } });
		daemon.configure(`[sandboxes.default]\npool = 0\n${section('hub', forge, 'secret = "env:CLOCHE_TEST_FORGE"')}`);
		const folder = path.join(daemon.state, 'skills');
		const write = (name, text, mode = 0o644) => {
			fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
			fs.writeFileSync(path.join(folder, name), text, { mode });
		};
		write('from-config/SKILL.md', front('from-config', '>\n  folded\n  over lines'));
		write('from-config/tools/check.sh', '#!/bin/sh\necho checked\n', 0o755);
		write('wrong/SKILL.md', front('other'));
		await daemon.serve();
	});
	after(async () => {
		await daemon?.stop();
		await forge?.stop();
	});

	const run = async (instruction, more = {}) => (await daemon.get('POST', '/tasks/run', { instruction, ...more }, WAIT)).task;

	test('list, add, rm', async () => {
		const folder = path.join(daemon.folder, 'house-style');
		fs.mkdirSync(folder);
		fs.writeFileSync(path.join(folder, 'SKILL.md'), front('house-style', '"quoted: text"'));
		fs.writeFileSync(path.join(folder, '.hidden'), 'not a part');
		assert.equal(await daemon.ok(['skill', 'add', folder]), 'house-style\n');
		const items = await daemon.json(['skill', 'list']);
		assert.deepEqual(items.map(({ name, source, description }) => [name, source, description]), [
			['from-config', 'config', 'folded over lines'],
			['house-style', 'api', 'quoted: text'],
			['wrong', 'config', ''],
		]);
		assert.match(items[2].problem, /'name' is 'other', but its folder is 'wrong'/);
		assert.deepEqual(items[1].files, ['SKILL.md']);
		assert.equal((await daemon.api('DELETE', '/skills/from-config')).status, 409);
		assert.equal((await daemon.api('DELETE', '/skills/nosuch')).status, 404);
	});

	test('what is no skill is refused', async () => {
		const files = (...list) => ({ files: list.map(([name, content]) => ({ path: name, content })) });
		for (const [body, why] of [
			[files(), /SKILL\.md/],
			[files(['README.md', 'x']), /SKILL\.md/],
			[files(['SKILL.md', 'no front']), /front matter/],
			[files(['SKILL.md', '---\nname: a\n']), /does not end/],
			[files(['SKILL.md', front('A_B')]), /'name'/],
			[files(['SKILL.md', front('a'.repeat(65))]), /'name'/],
			[files(['SKILL.md', front('a', '')]), /'description'/],
			[files(['SKILL.md', front('a', 'x'.repeat(1025))]), /'description'/],
			[files(['SKILL.md', front('a')], ['../x', '']), /no name of a file/],
			[files(['SKILL.md', front('a')], ['/etc/x', '']), /no name of a file/],
			[files(['SKILL.md', front('a')], ['b/../../x', '']), /no name of a file/],
			[files(['SKILL.md', front('a')], ['SKILL.md', '']), /twice/],
			[files(['SKILL.md', front('from-config')]), /the operator has/],
		]) {
			const { status, body: answer } = await daemon.api('POST', '/skills', body);
			assert.ok(status >= 400 && status < 500 && why.test(answer.detail), JSON.stringify(answer));
		}
		const large = await daemon.api('POST', '/skills', files(['SKILL.md', front('a')], ['big', 'x'.repeat(600 * 1024)]));
		assert.equal(large.status, 413);
	});

	test('in three places, read-only, as the run began', async () => {
		const script = `for p in ${PLACES.join(' ')}; do
ls $p; cat $p/house-style/SKILL.md | head -2; $p/from-config/tools/check.sh
touch $p/new; echo x >> $p/house-style/SKILL.md; rm -rf $p/house-style; mv $p $p.old; chmod 777 $p
done 2>/dev/null; touch ~/.claude/settings && echo home-is-mine; ls ~/.agents/skills`;
		const one = 'from-config\nhouse-style\n---\nname: house-style\nchecked\n';
		const task = await run(script, { skills: ['house-style', 'from-config'] });
		assert.equal(task.stdout, `${one.repeat(3)}home-is-mine\nfrom-config\nhouse-style\n`, task.stderr);
		const none = await run(`ls -d ${PLACES.join(' ')} 2>&1 | grep -c 'No such'`);
		assert.equal(none.stdout, '3\n');
		const { status, body } = await daemon.api('POST', '/tasks/run', { instruction: 'true', skills: ['house-stlye'] });
		assert.deepEqual([status, /no skill 'house-stlye' \(did you mean 'house-style'\?\)/.test(body.detail)], [400, true], body.detail);
		assert.equal((await daemon.api('POST', '/tasks/run', { instruction: 'true', skills: ['wrong'] })).status, 400);
	});

	test('a child has at most what its parent has', async () => {
		const child = (skill) => `cloche task run --wait --skill ${skill} 'ls ~/.agents/skills'`;
		const task = await run(`${child('house-style')}; ${child('from-config')}`, { skills: ['house-style'] });
		assert.match(task.stdout, /^house-style$/m);
		assert.ok(!/from-config/.test(task.stdout), task.stdout);
		assert.match(task.stderr, /from-config/);
	});

	test('a mount of skills is not for callers to name', async () => {
		const { status } = await daemon.api('POST', '/sandboxes', { mounts: [{ grant: 'sk_00000000000000000000', target: '/x' }] });
		assert.equal(status, 400);
	});

	/** What the event of a task says about the skills of its project. */
	const toldOf = async (task) => {
		const { items } = await daemon.get('GET', `/tasks/${task.id}/events`);
		return items.filter((one) => one.kind === 'task.skills').map((one) => one.data);
	};

	test('of a repository are in the three places, beside those that the task names', async () => {
		forge.make('org/skilled', {
			'.agents/skills/of-project/SKILL.md': front('of-project'),
			'.agents/skills/of-project/tools/run.sh': '#!/bin/sh\necho ran\n',
			'.claude/skills/for-claude/SKILL.md': front('for-claude'),
			'.claude/skills/of-project': { link: '../../.agents/skills/of-project' },
			'skills/plain/SKILL.md': front('plain'),
			'skills/no-skill/README.md': 'not one',
			'skills/from-config/SKILL.md': front('from-config', 'another text'),
		});
		const script = `for p in ${PLACES.join(' ')}; do ls $p; cat $p/from-config/SKILL.md | grep -c another; sh $p/of-project/tools/run.sh
touch $p/new; echo x >> $p/plain/SKILL.md; rm -rf $p/plain; chmod 777 $p/plain; done 2>/dev/null; ls ~/.claude/skills
echo x >> skills/plain/SKILL.md; rm -r .agents; head -2 ~/.agents/skills/plain/SKILL.md; ls ~/.agents/skills/of-project`;
		const task = await run(script, { repository: 'org/skilled', createPr: false, skills: ['from-config'] });
		const names = 'for-claude\nfrom-config\nof-project\nplain\n';
		assert.equal(task.stdout, `${`${names}0\nran\n`.repeat(3)}${names}---\nname: plain\nSKILL.md\ntools\n`, task.stderr);
		const [told] = await toldOf(task);
		assert.deepEqual([...told.shown].sort(), ['for-claude', 'of-project', 'plain']);
		assert.deepEqual(told.refused.map(({ skill, problem }) => [skill, problem]), [['skills/from-config', 'the task names a skill of that name']]);
		// Whoever goes on with its files has what they are now, and what was named then.
		const next = await run(`ls ~/.agents/skills; grep -c another ~/.agents/skills/from-config/SKILL.md; grep -c x$ ~/.agents/skills/plain/SKILL.md`, { resumeFrom: task.id, createPr: false });
		assert.equal(next.stdout, 'for-claude\nfrom-config\nplain\n0\n1\n', next.stderr);
	});

	test('of inputs', async () => {
		const input = await run('cat ~/.claude/skills/given/SKILL.md', { inputs: [{ path: '.agents/skills/given/SKILL.md', content: front('given') }] });
		assert.equal(input.stdout, front('given'), input.stderr);
	});

	test('of a project that are wrong are told, and end nothing', async () => {
		const many = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`skills/many-${n}/SKILL.md`, front(`many-${n}`)]));
		forge.make('org/hostile', {
			'.agents/skills/a-name/SKILL.md': front('another-name'),
			'.agents/skills/../../.agents/skills/Bad_Name/SKILL.md': front('Bad_Name'),
			'.agents/skills/climbs/SKILL.md': front('../../../../etc'),
			'.agents/skills/empty/SKILL.md': '',
			'.agents/skills/large/SKILL.md': front('large'),
			'.agents/skills/large/data': 'x'.repeat(700 * 1024),
			'.agents/skills/huge/SKILL.md': front('huge'),
			'.agents/skills/huge/data': 'x'.repeat(3000 * 1024),
			'.agents/skills/linked/SKILL.md': { link: '/etc/passwd' },
			'.agents/skills/links/SKILL.md': front('links'),
			'.agents/skills/links/inner': { link: '/' },
			'.agents/skills/deep/SKILL.md': front('deep'),
			'.agents/skills/deep/a/b/c/d/e/f': 'x',
			'.agents/skills/rooted': { link: '/' },
			'.agents/skills/bytes/SKILL.md': Buffer.from([0x2d, 0x2d, 0x2d, 0x0a, 0xff, 0xfe]),
			'.agents/skills/"\n\u001b[31m/SKILL.md': front('x'),
			...many,
		});
		const task = await run('ls ~/.agents/skills', { repository: 'org/hostile', createPr: false });
		assert.equal(task.status, 'completed');
		const shown = task.stdout.trim().split('\n');
		assert.ok(shown.length === 16 && shown.every((name) => /^many-\d+$/.test(name)), task.stdout);
		const [told] = await toldOf(task);
		assert.deepEqual([...told.shown].sort(), shown.sort());
		const why = Object.fromEntries(told.refused.map(({ skill, problem }) => [skill.split('/').at(-1), problem]));
		assert.match(why['a-name'], /'name' is 'another-name', but its folder is 'a-name'/);
		assert.match(why.Bad_Name, /'name' must be/);
		assert.match(why.climbs, /'name' must be/);
		assert.match(why.empty, /front matter/);
		assert.match(why.large, /at most 64 files and 512 KiB/);
		assert.match(why.huge, /at most 64 files and 512 KiB/);
		assert.match(why.deep, /four folders/);
		assert.match(why.linked, /'SKILL\.md' is neither a file nor a folder/);
		assert.match(why.links, /'inner' is neither a file nor a folder/);
		assert.match(why.bytes, /UTF-8/);
		assert.equal(told.refused.filter(({ problem }) => /at most 16 skills/.test(problem)).length, 4);
		assert.ok(!why.rooted && !/\u001b/.test(JSON.stringify(told)), 'what is foreign is escaped');
	});

	test('another team has its own', async () => {
		await daemon.get('POST', '/teams', { name: 'theirs' });
		await daemon.get('PUT', '/teams/theirs/members/ada', { role: 'admin' });
		const theirs = await daemon.as((await daemon.key({ name: 'ada', team: 'theirs', principal: 'ada' })).secret);
		assert.deepEqual((await theirs.expect(200, 'GET', '/skills')).items.map(({ name }) => name), ['from-config', 'wrong']);
		await theirs.expect(404, 'GET', '/skills/house-style');
		await daemon.ok(['skill', 'rm', 'house-style']);
		assert.equal((await daemon.api('GET', '/skills/house-style')).status, 404);
	});
});
