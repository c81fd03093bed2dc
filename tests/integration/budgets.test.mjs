// Money and families of runs: what ends one ends those below it, and nothing costs more than was granted.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { until, withDaemon } from './lib.mjs';

const CONFIG = '[sandboxes.default]\npool = 2\n[server]\nlisten = "127.0.0.1:0"\n';
const WAIT = { headers: { Prefer: 'wait=30' } };

async function run(cloche, body, options = WAIT) {
	const answer = await cloche.api('POST', '/tasks/run', typeof body === 'string' ? { instruction: body } : body, options);
	assert.ok(answer.status < 300, `${answer.status} ${answer.bytes}`);
	return answer.body.task;
}

const task = async (cloche, id, options) => (await cloche.get('GET', `/tasks/${id}`, undefined, options)).task;

/** A run with a child and a grandchild, all of which sleep. */
async function family(cloche, options) {
	const inner = 'cloche task run --detach "sleep 90"; sleep 90';
	const top = await run(cloche, { instruction: `cloche task run --detach '${inner}'; sleep 90`, ...options }, {});
	let all;
	await until(async () => {
		all = (await cloche.get('GET', '/tasks?state=running')).items.filter((one) => one.run.id === top.run?.id || one.run.chain.length > 0 || one.id === top.id);
		return all.filter((one) => one.run.step === 'wait').length === 3;
	}, 'three of them wait', 60000);
	return { top: all.find((one) => one.id === top.id), below: all.filter((one) => one.id !== top.id) };
}

/** All of them end; gives their runs. */
async function allOver(cloche, tasks) {
	await until(async () => (await Promise.all(tasks.map(({ id }) => task(cloche, id)))).every((one) => one.completedAt), 'all are over');
	return Promise.all(tasks.map(async ({ id }) => (await task(cloche, id)).run));
}

describe('a run started from inside another', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });

	test('shows where it comes from', async () => {
		const { top, below } = await family(cloche);
		const child = below.find((one) => one.run.parent === top.run.id);
		const grandchild = below.find((one) => one.run.parent === child.run.id);
		assert.deepEqual(child.run.chain, [top.run.token]);
		assert.deepEqual(grandchild.run.chain, [top.run.token, child.run.token]);
		assert.equal(top.run.parent, null);
		await cloche.get('POST', `/tasks/${top.id}/stop`, {});
		const runs = await allOver(cloche, [top, ...below]);
		assert.deepEqual(runs.map((one) => one.endReason), ['stopped', 'stopped', 'stopped']);
		assert.ok(runs.every((one) => one.tokenRevokedAt));
		assert.match(runs[1].detail, /rn_.* ended/);
	});

	test('ends with it, however it ends', async () => {
		for (const [script, reason] of [['exit 0', 'finished'], ['exit 1', 'agent_error']]) {
			const top = await run(cloche, `cloche task run --detach 'sleep 90'; sleep 1; ${script}`);
			assert.equal(top.endReason, reason);
			const child = (await cloche.get('GET', '/tasks')).items.find((one) => one.run.parent === top.run.id);
			const [over] = await allOver(cloche, [child]);
			assert.equal(over.endReason, 'stopped');
		}
	});

	test('ends with the key at the top of its chain', async () => {
		const { secret, id } = await cloche.get('POST', '/keys', { name: 'top' });
		const auth = { headers: { Authorization: `Bearer ${secret}` } };
		const inner = "cloche task run --detach 'sleep 90'; sleep 90";
		const top = await run(cloche, { instruction: inner }, auth);
		let child;
		await until(async () => {
			const parent = await task(cloche, top.id);
			child = (await cloche.get('GET', '/tasks?state=running')).items.find((one) => one.run.parent === parent.run.id);
			return child?.run.step === 'wait';
		}, 'the child waits', 20000);
		assert.equal(child.run.chain[0], id);
		await cloche.get('DELETE', `/keys/${id}`);
		const runs = await allOver(cloche, [top, child]);
		assert.equal(runs[0].endReason, 'policy');
		assert.match(runs[0].detail, /revoked/);
	});

	test('spends the money of the one above', async () => {
		const top = await run(cloche, { instruction: `cloche task run --wait 'while :; do :; done'; sleep 60`, budget: 0.0002, timeout: 60000 });
		assert.equal(top.endReason, 'budget', JSON.stringify(top.run));
		const child = (await cloche.get('GET', '/tasks')).items.find((one) => one.run.parent === top.run.id);
		const [over] = await allOver(cloche, [child]);
		assert.ok(['stopped', 'budget'].includes(over.endReason), over.endReason);
		const again = await task(cloche, top.id);
		assert.ok(Math.abs(again.run.totalCost - (again.run.cost + over.cost)) < 1e-9, `${again.run.totalCost} ${again.run.cost} ${over.cost}`);
		assert.ok(again.run.cost < 0.0002 && again.run.totalCost >= 0.0002);
		assert.equal(again.run.budgetLeft, null);
	});

	test('may be promised a part of it, and no more than is there', async () => {
		const top = await run(cloche, {
			instruction: 'cloche task run --detach --budget 0.6 "sleep 60" >/dev/null; cloche task run --budget 0.5 true; cloche task run --wait "cloche -o json task get $CLOCHE_TASK"; exit 3',
			budget: 1,
		});
		assert.match(top.stderr, /budget: \$0\.5 is more than the \$0\.(4|39\d+) /);
		assert.equal(top.exitCode, 3);
		const inner = JSON.parse(top.stdout);
		assert.equal((inner.task ?? inner).run.budget, 1);
	});

	test('needs no more than its own credential for that, and touches nobody else', async () => {
		const other = await run(cloche, 'sleep 60', {});
		const top = await run(cloche, {
			instruction: `id=$(cloche task run --detach 'sleep 60'); cloche task stop $id >/dev/null && cloche task get $id >/dev/null && echo own; cloche task stop ${other.id}; cloche task get ${other.id}; cloche task list`,
			scopes: ['profiles:read'],
		});
		assert.match(top.stdout, /own/);
		assert.equal(top.stderr.match(/no task/g)?.length, 2, top.stderr);
		assert.match(top.stderr, /tasks:read/);
		await cloche.get('POST', `/tasks/${other.id}/stop`, {}, WAIT);
	});

	test('takes the sandboxes it made along', async () => {
		const other = await cloche.create();
		const top = await run(cloche, 'id=$(cloche sandbox create -q 2>/dev/null || cloche sandbox create); cloche sandbox exec $id -- echo in; cloche sandbox list -q | wc -l');
		assert.equal(top.stdout, 'in\n2\n', top.stderr);
		await until(async () => (await cloche.get('GET', '/sandboxes')).items.length === 1, 'only the other is left', 60000);
		await cloche.api('DELETE', `/sandboxes/${other.id}?force=true`);
	});
});

describe('a budget', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });
	const busy = { instruction: 'while :; do :; done', timeout: 60000 };
	const budget = async (kind) => (await cloche.get('GET', '/budgets')).items.find((one) => one.kind === kind);

	test('of a team, an agent, a key or a task ends what it pays for, once warned', async () => {
		const { secret, id: key } = await cloche.get('POST', '/keys', { name: 'payer' });
		const auth = { headers: { Authorization: `Bearer ${secret}`, Prefer: 'wait=30' } };
		const { task: made } = await cloche.get('POST', '/tasks', busy);
		for (const [kind, subject] of [['team', 'default'], ['agent', 'shell'], ['key', key], ['task', made.id]]) {
			const spent = (await cloche.get('PUT', `/budgets/${kind}/${subject}`, { amount: 1000 })).spent;
			const amount = Number((spent + 0.00015).toFixed(6));
			await cloche.get('PUT', `/budgets/${kind}/${subject}`, { amount });
			const ended = (await cloche.get('POST', `/tasks/${made.id}/runs`, {}, auth)).task;
			assert.equal(ended.endReason, 'budget', JSON.stringify(ended.run));
			assert.match(ended.run.detail, new RegExp(`budget of ${kind}`));
			const now = await budget(kind);
			assert.ok(now.spent >= amount && now.spent < amount + 0.00015, `${now.spent} of ${amount}: within a second or so`);
			const { items } = await cloche.get('GET', `/tasks/${made.id}/events?limit=1000`);
			const told = items.filter((one) => one.kind.startsWith('budget.') && one.data.of === kind).map((one) => one.kind);
			assert.deepEqual(told, ['budget.warning', 'budget.exhausted']);
			const refused = await cloche.api('POST', `/tasks/${made.id}/runs`, {}, auth);
			assert.equal(refused.status, 402, String(refused.bytes));
			assert.match(refused.body.detail, new RegExp(`of the \\$${amount} of ${kind} .* \\$0 are left`));
			await cloche.get('DELETE', `/budgets/${kind}/${subject}`);
		}
	});

	test('is set aside for runs that were promised a part', async () => {
		const spent = (await cloche.get('PUT', '/budgets/agent/shell', { amount: 1000, period: 'day' })).spent;
		await cloche.get('PUT', '/budgets/agent/shell', { amount: spent + 1, period: 'day' });
		const first = await run(cloche, { instruction: 'sleep 60', budget: 0.7 }, {});
		const second = await cloche.api('POST', '/tasks/run', { instruction: 'true', budget: 0.5 });
		assert.equal(second.status, 402);
		assert.match(second.body.detail, /may take \$0\.5, and .* \$0\.(3|29\d*) are left/);
		assert.ok((await budget('agent')).reserved > 0.6);
		assert.equal((await run(cloche, { instruction: 'true', budget: 0.2 })).endReason, 'finished');
		await cloche.get('POST', `/tasks/${first.id}/stop`, {}, WAIT);
		assert.equal((await budget('agent')).reserved, 0);
	});

	test('is known after a crash, and told of once', async () => {
		const spent = (await cloche.get('PUT', '/budgets/agent/shell', { amount: 1000 })).spent;
		await cloche.get('PUT', '/budgets/agent/shell', { amount: spent + 0.0004 });
		const { id } = await run(cloche, busy, {});
		const events = async () => (await cloche.get('GET', `/tasks/${id}/events?limit=1000`)).items.filter((one) => one.kind.startsWith('budget.')).map((one) => one.kind);
		await until(async () => (await events()).length === 1, 'it is warned');
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
		assert.equal((await task(cloche, id, WAIT)).endReason, 'budget');
		assert.deepEqual(await events(), ['budget.warning', 'budget.exhausted']);
		await cloche.get('DELETE', '/budgets/agent/shell');
	});

	test('is set, listed and removed by command', async () => {
		assert.match(await cloche.ok(['budget', 'set', 'agent', 'shell', '2.50', '--period', 'month']), /agent +shell +\$2\.5 +month/);
		assert.match(await cloche.ok(['budgets', 'ls']), /RESERVED/);
		await cloche.ok(['budget', 'rm', 'agent', 'shell']);
		assert.match((await cloche.cli(['budget', 'rm', 'agent', 'shell'])).stderr, /no budget/);
		assert.match((await cloche.cli(['budget', 'set', 'agent', 'shell', 'much'])).stderr, /no amount/);
		for (const [path, body] of [['moon/x', { amount: 1 }], ['agent/x', { amount: 0 }], ['agent/x', { amount: 1, period: 'week' }]])
			assert.equal((await cloche.api('PUT', `/budgets/${path}`, body)).status, 400, path);
		assert.equal((await cloche.api('PUT', '/budgets/key/ky_00000000000000000000', { amount: 1 })).status, 404);
	});
});

describe('a budget that freezes', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG });
	const ticking = { instruction: 'i=0; while :; do i=$((i+1)); echo $i > tick; done', timeout: 120000 };
	const now = async (id) => (await task(cloche, id)).run;
	const kinds = async (id) => (await cloche.get('GET', `/tasks/${id}/events?limit=1000`)).items.map((one) => one.kind).filter((kind) => /frozen|thawed|exhausted/.test(kind));
	const limit = async (more, action = 'freeze') => {
		const { spent } = await cloche.get('PUT', '/budgets/agent/shell', { amount: 1000 });
		return cloche.get('PUT', '/budgets/agent/shell', { amount: Number((spent + more).toFixed(6)), action });
	};
	const frozen = async (id) => until(async () => (await now(id)).frozenAt, 'it is frozen', 30000);

	test('holds a run still, shows it, and lets it go on when it is raised', async () => {
		assert.equal((await limit(0.00015)).action, 'freeze');
		const { id } = await run(cloche, ticking, {});
		await frozen(id);
		const { sandbox, status, usage } = await now(id);
		assert.equal(status, 'running');
		assert.match(await cloche.ok(['task', 'list']), /running \(frozen\)/);
		assert.match(await cloche.ok(['task', 'get', id]), /frozen: +since/);
		const box = await cloche.get('GET', `/sandboxes/${sandbox}`);
		assert.equal(box.meters.frozen, 1);
		await until(async () => {
			const [a, b] = [await cloche.get('GET', `/sandboxes/${sandbox}`), await cloche.get('GET', `/sandboxes/${sandbox}`)];
			return a.meters.cpuSeconds === b.meters.cpuSeconds && a.meters.uptimeMs < b.meters.uptimeMs;
		}, 'nothing in it runs', 5000);
		const refused = await cloche.api('POST', `/sandboxes/${sandbox}/execs`, { shell: 'true' });
		assert.equal(refused.status, 409);
		assert.match(refused.body.detail, /frozen/);
		await cloche.get('PUT', '/budgets/agent/shell', { amount: 900, action: 'freeze' });
		await until(async () => !(await now(id)).frozenAt, 'it goes on', 10000);
		await until(async () => (await cloche.get('GET', `/sandboxes/${sandbox}`)).meters.cpuSeconds > usage.cpuSeconds + 0.1, 'it works', 20000);
		assert.deepEqual(await kinds(id), ['budget.exhausted', 'task.frozen', 'task.thawed']);
		const { items } = await cloche.get('GET', `/sandboxes/${sandbox}/events?limit=1000`);
		assert.deepEqual(items.map((one) => one.kind).filter((kind) => /frozen|thawed/.test(kind)), ['sandbox.frozen', 'sandbox.thawed']);
		assert.equal((await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT)).task.endReason, 'stopped');
	});

	test('holds across a crash, and a stop reaches what is frozen', async () => {
		await cloche.get('DELETE', '/budgets/agent/shell');
		const { id } = await run(cloche, { ...ticking, timeout: 100000 }, {});
		await until(async () => (await now(id)).step === 'wait', 'it works', 20000);
		await limit(0.00015);
		await frozen(id);
		cloche.note();
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers', 15000);
		await frozen(id);
		assert.equal((await cloche.get('POST', `/tasks/${id}/stop`, {}, WAIT)).task.endReason, 'stopped');
		await cloche.get('DELETE', '/budgets/agent/shell');
	});

	test('is chosen by command, and refused when it is no action', async () => {
		assert.match(await cloche.ok(['budget', 'set', 'agent', 'x', '5', '--action', 'freeze']), /freeze/);
		assert.match((await cloche.cli(['budget', 'set', 'agent', 'x', '5', '--action', 'melt'])).stderr, /stop or freeze/);
		await cloche.ok(['budget', 'rm', 'agent', 'x']);
	});
});

describe('[budgets] of config.toml', () => {
	const cloche = withDaemon({ before, after }, { config: `${CONFIG}[budgets]\nteam = "0.0002"\nperiod = "day"\naction = "freeze"\nfreeze_timeout = "1s"\n` });

	test('holds for every team without a budget of its own; what is frozen ends when nobody raises it', async () => {
		const [one] = (await cloche.get('GET', '/budgets')).items;
		assert.deepEqual([one.kind, one.amount, one.period, one.action], ['team', 0.0002, 'day', 'freeze']);
		const ended = await run(cloche, { instruction: 'while :; do :; done', timeout: 60000 });
		assert.equal(ended.endReason, 'budget');
		assert.match(ended.run.detail, /frozen for 1 s/);
		assert.ok(ended.run.tokenRevokedAt && !ended.run.frozenAt);
		assert.equal((await cloche.api('POST', '/tasks/run', { instruction: 'true' })).status, 402);
		await cloche.get('PUT', '/budgets/team/default', { amount: 5 });
		assert.equal((await run(cloche, 'true')).endReason, 'finished');
	});
});

/** Files of that name below the cgroups of a sandbox. */
function cgroupFiles(sandbox, name) {
	const found = [];
	const walk = (dir, depth, inside) => {
		for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
			if (!entry.isDirectory() || entry.isSymbolicLink()) continue;
			const at = path.join(dir, entry.name);
			if (entry.name.includes(sandbox)) {
				if (fs.existsSync(path.join(at, name))) found.push(path.join(at, name));
			} else if (depth < 6) {
				try {
					walk(at, depth + 1, inside);
				} catch {} // it went meanwhile
			}
		}
	};
	walk('/sys/fs/cgroup', 0, false);
	return found;
}

describe('a receipt', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG, listen: '127.0.0.1:0' });

	test('says what the kernel counted', async (t) => {
		const { id } = await run(cloche, 'sh -c "ulimit -t 2; while :; do :; done"; dd if=/dev/zero of=file bs=1M count=8 2>/dev/null; sleep 3', {});
		let box;
		await until(async () => (box = (await task(cloche, id)).run.sandbox), 'it has a sandbox');
		const [file] = [...cgroupFiles(box, 'cpuacct.usage'), ...cgroupFiles(box, 'cpu.stat')];
		if (!file) return t.skip('no cgroup of it is to be seen from here');
		let counted = 0;
		await until(async () => {
			try {
				const text = fs.readFileSync(file, 'utf8');
				counted = file.endsWith('usage') ? Number(text) / 1e9 : Number(/usage_usec (\d+)/.exec(text)[1]) / 1e6;
			} catch {} // it is gone
			return (await task(cloche, id)).completedAt;
		}, 'it is over', 30000);
		const { usage, cost } = (await task(cloche, id)).run;
		assert.ok(counted > 1, `${counted}`);
		assert.ok(Math.abs(usage.cpuSeconds - counted) <= 0.05 * counted, `${usage.cpuSeconds} is not ${counted}`);
		assert.ok(usage.memoryByteSeconds > 0 && usage.diskByteSeconds > 0, JSON.stringify(usage));
		const [, day] = (await cloche.ok(['usage', '--by', 'task', '--csv'])).trim().split('\n').map((line) => line.split(','));
		assert.equal(Number(day[2]), cost);
		assert.match(String(cost), /^0\.0\d{1,5}$/);
		const stored = (await cloche.get('GET', `/tasks/${id}/events?limit=100`)).items.at(-1);
		assert.equal(stored.data.cost, cost);
	});

	test('has the memory the kernel counted, integrated over time', async (t) => {
		const { id } = await run(cloche, 'dd if=/dev/zero of=file bs=1M count=32 2>/dev/null; (head -c 96m /dev/zero; sleep 7) | tail -c 96m > /dev/null', {});
		let box;
		await until(async () => (box = (await task(cloche, id)).run.sandbox), 'it has a sandbox');
		const [file] = [...cgroupFiles(box, 'memory.usage_in_bytes'), ...cgroupFiles(box, 'memory.current')];
		if (!file) return t.skip('no cgroup of it is to be seen from here');
		// What it had between two looks is between what was seen, from its start to its end: closely, on a quiet machine.
		let [least, sum, most, before, at] = [0, 0, 0, 0, Date.parse((await task(cloche, id)).run.startedAt)];
		const seen = (bytes, now) => {
			const seconds = (now - at) / 1000;
			least += Math.min(bytes, before) * seconds;
			sum += ((bytes + before) / 2) * seconds;
			most += Math.max(bytes, before) * seconds;
			[before, at] = [bytes, now];
		};
		const timer = setInterval(() => {
			try {
				seen(Number(fs.readFileSync(file, 'utf8')), Date.now());
			} catch {} // it is gone
		}, 50);
		await until(async () => (await task(cloche, id)).completedAt, 'it is over', 60000);
		clearInterval(timer);
		const { usage, completedAt } = (await task(cloche, id)).run;
		seen(0, Math.max(at, Date.parse(completedAt)));
		t.diagnostic(`${usage.memoryByteSeconds} of ${Math.round(sum)} byte-seconds, ratio ${(usage.memoryByteSeconds / sum).toFixed(4)}`);
		assert.ok(sum > 300e6, `${sum}`);
		assert.ok(Math.abs(usage.diskBytes - 32 * 2 ** 20) <= 0.05 * 32 * 2 ** 20, `${usage.diskBytes}`);
		assert.ok(usage.memoryByteSeconds >= 0.95 * least && usage.memoryByteSeconds <= 1.05 * most, `${usage.memoryByteSeconds} is not ${least} to ${most}`);
	});

	test('is what usage adds up, by whatever', async () => {
		const { id: key, secret } = await cloche.key({ name: 'payer' });
		const payer = await cloche.as(secret);
		const start = (instruction) => payer.expect(200, 'POST', '/tasks/run', { instruction }, WAIT);
		await start('true');
		await start("cloche task run --wait 'echo below'");
		const { items } = await cloche.get('GET', '/tasks?limit=100');
		const receipts = items.map((one) => one.run);
		const sum = (runs, of) => runs.reduce((total, one) => total + of(one), 0);
		const table = async (by) => {
			const [head, ...rows] = (await cloche.ok(['usage', '--by', by, '--csv'])).trim().split('\n').map((line) => line.split(','));
			return rows.map((row) => Object.fromEntries(head.map((name, i) => [name, name === 'key' ? row[i] : Number(row[i])])));
		};
		for (const by of ['task', 'agent', 'key', 'team', 'day']) {
			const rows = await table(by);
			assert.equal(sum(rows, (row) => row.runs), receipts.length, by);
			assert.equal(Math.round(sum(rows, (row) => row.cost * 1e6)), Math.round(sum(receipts, (one) => one.cost * 1e6)), by);
			assert.ok(Math.abs(sum(rows, (row) => row.cpuSeconds) - sum(receipts, (one) => one.usage.cpuSeconds)) < 1e-4, by);
			assert.equal(sum(rows, (row) => row.memoryByteSeconds), sum(receipts, (one) => one.usage.memoryByteSeconds), by);
			assert.equal(sum(rows, (row) => row.networkBytes), sum(receipts, (one) => one.usage.netSentBytes + one.usage.netReceivedBytes), by);
		}
		assert.equal((await table('key')).find((row) => row.key === key).runs, 3, 'a child is its parent’s key’s');
		const one = (await table('task')).find((row) => row.key === items[0].id);
		assert.equal(one.cost, items[0].run.cost);
	});
});
