// Tasks as clients see them: the shape of the answers field by field, by curl; who works for whom and
// in which turn; the command line on a terminal; an agent one talks to.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { clocheBin, isAlive, run as program, until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 2\n[tasks]\nteam_concurrency = 2\nconcurrency = 4\n';
const WAIT = { headers: { Prefer: 'wait=60' } };
/** What every client of the first hour relies on. */
const FIRST = ['id', 'status', 'stdout', 'stderr', 'exitCode', 'inputTokens', 'outputTokens', 'createdAt', 'completedAt'];
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const VERBS = ['run', 'create', 'start', 'list', 'get', 'wait', 'stop', 'runs', 'events', 'logs', 'artifacts', 'retry', 'resume', 'output', 'attach'];

describe('a task by curl', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG, listen: '127.0.0.1:0' });

	/** {status, headers, body} of a real curl. */
	async function curl(path, body, ...more) {
		const args = ['-s', '-i', '--max-time', '90', '--unix-socket', cloche.socket, ...more, ...(body ? ['-d', JSON.stringify(body)] : []), `http://localhost/api/v1${path}`];
		const { stdout, code } = await program('curl', args);
		assert.equal(code, 0);
		const end = stdout.lastIndexOf('\r\n\r\n');
		const [line, ...headers] = stdout.slice(0, end).split('\r\n');
		const named = Object.fromEntries(headers.map((one) => [one.split(':')[0].toLowerCase(), one.slice(one.indexOf(':') + 1).trim()]));
		return { status: Number(line.split(' ')[1]), headers: named, body: JSON.parse(stdout.slice(end + 4)) };
	}

	test('is accepted at once, every member there', async () => {
		const { status, body } = await curl('/tasks/run', { instruction: 'echo hello; sleep 0.2', scopes: ['tasks:read'], timeout: 60000 });
		assert.equal(status, 202);
		assert.deepEqual(Object.keys(body), ['task']);
		for (const name of [...FIRST, 'endReason', 'usage', 'cost']) assert.ok(name in body.task, name);
		const { id, createdAt, ...rest } = Object.fromEntries(FIRST.map((name) => [name, body.task[name]]));
		assert.match(id, /^tsk_/);
		assert.match(createdAt, TIME);
		assert.deepEqual(rest, { status: 'pending', stdout: null, stderr: null, exitCode: null, inputTokens: 0, outputTokens: 0, completedAt: null });
		assert.equal(body.task.endReason, null);
		assert.deepEqual(body.task.run.scopes.filter((one) => !['llm_gateway:read', 'task:write'].includes(one)), ['tasks:read']);
		const over = await curl(`/tasks/${id}`, undefined, '-H', 'Prefer: wait=60');
		assert.equal(over.status, 200);
		assert.equal(over.body.task.stdout, 'hello\n');
	});

	test('answers with all of it when it is waited for', async () => {
		const { status, headers, body } = await curl('/tasks/run', { instruction: 'echo out; echo err >&2; sleep 0.3; exit 3' }, '-H', 'Prefer: respond-async, wait=60');
		assert.deepEqual([status, headers['preference-applied']], [200, 'wait=60']);
		const { id, createdAt, completedAt, ...rest } = Object.fromEntries([...FIRST, 'endReason'].map((name) => [name, body.task[name]]));
		assert.ok(TIME.test(createdAt) && TIME.test(completedAt) && createdAt <= completedAt);
		assert.deepEqual(rest, { status: 'failed', stdout: 'out\n', stderr: 'err\n', exitCode: 3, inputTokens: 0, outputTokens: 0, endReason: 'agent_error' });
		assert.ok(body.task.cost > 0 && body.task.usage.uptimeMs > 0, JSON.stringify(body.task.usage));
		assert.ok(body.task.run.tokenRevokedAt);
		const late = await curl('/tasks/run', { instruction: 'sleep 20' }, '-H', 'Prefer: wait=1');
		assert.deepEqual([late.status, late.body.task.status], [202, 'running']);
		const stopped = [await curl(`/tasks/${late.body.task.id}/stop`, {}, '-H', 'Prefer: wait=60'), await curl(`/tasks/${late.body.task.id}/stop`, {})];
		for (const one of stopped) assert.deepEqual([one.body.task.status, one.body.task.endReason], ['cancelled', 'stopped']);
		const most = await curl('/tasks/run', { instruction: 'true' }, '-H', 'Prefer: wait=100000');
		assert.ok(Number(/^wait=(\d+)$/.exec(most.headers['preference-applied'])[1]) < 100000, 'how long it really is');
	});

	test('is made once for one key: at once, with another body, after a crash', async () => {
		const ask = (instruction) => cloche.api('POST', '/tasks/run', { instruction, title: 'keyed' }, { headers: { 'Idempotency-Key': 'the same' } });
		const answers = await Promise.all(Array.from({ length: 20 }, () => ask('echo once')));
		const made = new Set(answers.filter((one) => one.status === 202).map((one) => one.body.task.id));
		assert.equal(made.size, 1, JSON.stringify(answers.map((one) => one.status)));
		assert.ok(answers.every((one) => [202, 409].includes(one.status)), JSON.stringify(answers.map((one) => one.status)));
		assert.ok([409, 422].includes((await ask('echo other')).status));
		const old = cloche.daemonProcess();
		process.kill(old.pid, 'SIGKILL');
		await until(() => !isAlive(old), 'it is gone');
		const again = await ask('echo once');
		assert.deepEqual([again.status, again.body.task.id, again.headers['idempotency-replayed']], [202, ...made, 'true']);
		const { items } = await cloche.get('GET', '/tasks?limit=1000');
		assert.equal(items.filter((one) => one.title === 'keyed').length, 1);
	});

	test('names what is wrong, and the limit', async () => {
		for (const [body, pattern] of [
			[{}, /instruction/],
			[{ instruction: 'true', timeout: 600001 }, /'timeout'.*600000.*timeout_max/],
			[{ instruction: 'true', timeout: -1 }, /timeout/],
			[{ instruction: 'true', timeout: 'soon' }, /timeout/],
			[{ instruction: 'true', idleTimeout: 10 }, /'idleTimeout'.*1000/],
			[{ instruction: 'true', mode: 'interactive', timeout: '7h' }, /'timeout'.*21600000.*sessions/],
			[{ instruction: 'true', priority: 1000 }, /'priority'.*100/],
			[{ instruction: 'true', budget: -1 }, /'budget'/],
			[{ instruction: 'true', limits: { memory: '900T' } }, /memory/],
			[{ instruction: 'true', title: 'x'.repeat(300) }, /'title'.*255/],
			[{ instruction: 'true', unknown: 1 }, /unknown/],
			[{ instruction: 'true', sandboxRuntime: 'other' }, /native/],
		]) {
			const { status, headers, body: answer } = await curl('/tasks/run', body);
			assert.equal(status, 400, JSON.stringify(body));
			assert.match(headers['content-type'], /problem\+json/);
			assert.match(answer.detail, pattern, JSON.stringify(body));
		}
	});
});

describe('whose turn it is', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG, listen: '127.0.0.1:0' });
	const who = {};
	before(async () => {
		for (const team of ['red', 'blue']) await cloche.get('POST', '/teams', { name: team });
		for (const [name, team, role] of [['rose', 'red', 'admin'], ['rob', 'red', 'member'], ['bea', 'blue', 'member']]) {
			await cloche.get('PUT', `/teams/${team}/members/${name}`, { role });
			who[name] = await cloche.as((await cloche.key({ name, team, principal: name })).secret);
		}
	});
	const start = (name, body) => who[name].expect(202, 'POST', '/tasks/run', { instruction: 'sleep 0.4', ...body });

	test('no team has more than its share, and a long queue of one is not in the way of another', async () => {
		const red = [];
		for (let i = 0; i < 8; i++) red.push((await start('rob')).task.id);
		const blue = (await start('bea')).task.id;
		let most = 0;
		let blueAt;
		await until(async () => {
			const { items } = await cloche.get('GET', '/tasks?limit=1000');
			const of = (ids, states) => items.filter((one) => ids.includes(one.id) && states.includes(one.status)).length;
			most = Math.max(most, of(red, ['running']));
			if (of([blue], ['completed'])) blueAt ??= of(red, ['completed', 'failed']);
			return of([...red, blue], ['completed']) === 9;
		}, 'all are done', 60000);
		assert.ok(most <= 2, `${most} of one team at one time`);
		assert.ok(blueAt <= 5, `the other team came after ${blueAt}`);
	});

	test('an admin starts one for somebody else, a member does not', async () => {
		const { task } = await start('rose', { userId: 'rob', instruction: 'cloche whoami' });
		const over = (await cloche.get('GET', `/tasks/${task.id}`, undefined, WAIT)).task;
		assert.match(over.stdout, /rob/, JSON.stringify(over.run));
		await who.rob.expect(200, 'GET', `/tasks/${task.id}`);
		const refused = await who.rob.expect(403, 'POST', '/tasks/run', { instruction: 'true', userId: 'rose' });
		assert.match(refused.detail, /userId/);
		await who.rose.expect(404, 'POST', '/tasks/run', { instruction: 'true', userId: 'bea' });
	});
});

describe('a task on a terminal', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('every verb explains itself', async () => {
		for (const verb of VERBS) {
			const text = await cloche.ok(['task', verb, '--help']);
			assert.match(text, new RegExp(`cloche .*task ${verb}`), verb);
			assert.match(text, /xample/, verb);
		}
		assert.match(await cloche.ok(['task', 'run', '--help']), /30s.*1m.*3m.*5m.*10m/s);
	});

	test('shows its steps as they come, then what it said', async () => {
		const onTerminal = (command) => program('script', ['-qec', command, '/dev/null'], { env: cloche.env });
		const { stdout, code } = await onTerminal(`${clocheBin()} task run 'echo said; exit 4'`);
		assert.equal(code, 4);
		for (const step of ['token', 'provision', 'agent', 'wait', 'collect', 'cleanup']) assert.match(stdout, new RegExp(`^${step} +done`, 'm'), stdout);
		assert.ok(stdout.indexOf('cleanup') < stdout.indexOf('said\r\n'), stdout);
		assert.match(stdout, /agent_error/);
		// in a pipe it prints its id and goes on
		assert.match((await cloche.ok(['tasks', 'run', 'true'])).trim(), /^tsk_\w+$/);
		const json = JSON.parse(await cloche.ok(['-o', 'json', 'task', 'run', '--wait', 'echo x']));
		assert.deepEqual([Object.keys(json), json.task.stdout], [['task'], 'x\n']);
	});

	test('takes what one tells it, until there is no more', async () => {
		const id = (await cloche.ok(['task', 'run', '--detach', '--interactive', 'echo ready; x=5'])).trim();
		const of = async () => (await cloche.get('GET', `/tasks/${id}`)).task;
		await until(async () => (await of()).run.step === 'wait', 'it waits');
		const { run } = await of();
		assert.deepEqual([run.timeout, run.idleTimeout], [6 * 3600e3, 30 * 60e3]);
		const said = await cloche.ok(['task', 'attach', id], { input: 'echo "x is $x and $((6 * 7))"; touch made\nls\n' });
		assert.equal(said, 'ready\nx is  and 42\nmade\n');
		const over = (await cloche.get('GET', `/tasks/${id}`, undefined, WAIT)).task;
		assert.deepEqual([over.endReason, over.stdout, over.mode], ['finished', said, 'interactive']);
		const late = await cloche.cli(['task', 'attach', id]);
		assert.equal(late.code === 0, false);
		assert.match(late.stderr, /no agent of this task works/);
		const quiet = (await cloche.get('POST', '/tasks/run', { instruction: 'true', mode: 'interactive', idleTimeout: 1000 }, WAIT)).task;
		assert.equal(quiet.endReason, 'idle');
	});
});
