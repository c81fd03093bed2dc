// What sandboxes use that are not those of runs: counted as the kernel counts, once, and paid for by somebody.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { cgroupsNamed, until, withDaemon } from './lib.mjs';

// Dear enough that a budget is spent in a second or two.
const CONFIG = '[sandboxes.default]\npool = 2\n[rates]\nsandbox_second = 600\ncpu_second = 400\n';
const BURN = 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; dd if=/dev/zero of=file bs=1M count=8 2>/dev/null';
const BUSY = { shell: 'i=0; while :; do i=$((i+1)); echo $i > tick; done', background: true };

const sum = (rows, of) => rows.reduce((total, row) => total + row[of], 0);
const usage = async (cloche, by = 'team') => (await cloche.get('GET', `/usage?by=${by}`)).items;
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 0.05 * Math.max(a, b), `${what}: ${a} is not ${b}`);

async function crash(cloche) {
	cloche.note();
	process.kill(cloche.daemonProcess().pid, 'SIGKILL');
	await until(async () => (await cloche.api('GET', '/health').catch(() => ({}))).status === 200, 'it answers');
}

/** Seconds of processor time, from the kernel's own files; undefined where none is to be seen. */
function kernelSeconds(sandbox) {
	for (const folder of cgroupsNamed([sandbox]).filter((one) => path.basename(one) === sandbox)) {
		const read = (name) => (fs.existsSync(path.join(folder, name)) ? fs.readFileSync(path.join(folder, name), 'utf8') : '');
		const v1 = read('cpuacct.usage');
		const v2 = /usage_usec (\d+)/.exec(read('cpu.stat'));
		if (v1) return Number(v1) / 1e9;
		if (v2) return Number(v2[1]) / 1e6;
	}
	return undefined;
}

describe('a sandbox made by hand', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG, listen: '127.0.0.1:0' });
	let counted = 0; // by the kernel, for all that is over

	test('is counted while it runs, when it stops and in its next life', async (t) => {
		const { id } = await cloche.create();
		for (const life of [1, 2]) {
			await cloche.exec(id, BURN);
			const kernel = kernelSeconds(id);
			if (kernel === undefined) return t.skip('no cgroup of it is to be seen from here');
			const [live] = await usage(cloche);
			near(live.cpuSeconds, counted + kernel, `life ${life}, while it runs`);
			assert.equal(live.sandboxes, life);
			assert.ok(live.sandboxSeconds > 0.1 && live.memoryByteSeconds > 0 && live.diskByteSeconds > 0 && live.cost > 0, JSON.stringify(live));
			const { meters } = await cloche.get('POST', `/sandboxes/${id}/stop`, {});
			counted += meters.cpuSeconds;
			near((await usage(cloche))[0].cpuSeconds, counted, `life ${life}, when it stopped`);
			if (life === 1) await cloche.get('POST', `/sandboxes/${id}/start`, {});
		}
		const before = await usage(cloche);
		await cloche.get('DELETE', `/sandboxes/${id}`);
		assert.deepEqual(await usage(cloche), before, 'its removal adds nothing');
	});

	test('is counted up to its removal, as is that of `cloche run`', async () => {
		const before = (await usage(cloche))[0];
		const { id } = await cloche.create();
		await cloche.exec(id, BURN);
		const { meters } = await cloche.get('GET', `/sandboxes/${id}`);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
		// By its own account: of the shell, then of what it started.
		const times = (await cloche.ok(['run', 'sh', '-c', `${BURN}; times`])).matchAll(/(\d+)m([\d.]+)s/g);
		const seconds = [...times].reduce((total, [, minutes, rest]) => total + 60 * minutes + Number(rest), 0);
		// The client is told before the last is counted: that is, with the row of the sandbox.
		await until(async () => (await cloche.get('GET', '/sandboxes')).items.length === 0, 'both are gone');
		const [now] = await usage(cloche);
		assert.equal(now.sandboxes, before.sandboxes + 2);
		near(now.cpuSeconds - before.cpuSeconds, meters.cpuSeconds + seconds, 'processor time');
		assert.ok(now.runs === 0 && now.cost > before.cost);
	});

	test('adds up to the same, by whatever, and is nobody’s task', async () => {
		const { id: key, secret } = await cloche.key({ name: 'payer' });
		const payer = await cloche.as(secret);
		const { id } = await payer.expect(201, 'POST', '/sandboxes', {});
		await cloche.exec(id, 'true');
		const [team, keys, days] = [await usage(cloche, 'team'), await usage(cloche, 'key'), await usage(cloche, 'day')];
		assert.equal(keys.find((row) => row.key === key).sandboxes, 1);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
		for (const by of ['team', 'key', 'day']) {
			const rows = await usage(cloche, by);
			assert.equal(sum(rows, 'sandboxes'), sum(team, 'sandboxes'), by);
			assert.ok(sum(rows, 'cost') >= Math.max(sum(keys, 'cost'), sum(days, 'cost')) - 1e-9, by);
			assert.equal(Math.round(sum(rows, 'cost') * 1e6), Math.round(sum(await usage(cloche, 'team'), 'cost') * 1e6), by);
		}
		for (const by of ['task', 'agent']) assert.deepEqual(await usage(cloche, by), []);
		const [head, line] = (await cloche.ok(['usage', '--by', 'team', '--csv'])).trim().split('\n').map((text) => text.split(','));
		assert.equal(Number(line[head.indexOf('sandboxes')]), sum(team, 'sandboxes'));
		const budget = await cloche.get('PUT', `/budgets/key/${key}`, { amount: 5 });
		assert.equal(budget.spent, (await usage(cloche, 'key')).find((row) => row.key === key).cost);
		await cloche.get('DELETE', `/budgets/key/${key}`);
	});

	test('is counted once, whoever is killed', async () => {
		const [before] = await usage(cloche);
		const { id } = await cloche.create();
		await cloche.exec(id, BURN);
		await usage(cloche); // now it has rows
		await crash(cloche);
		await cloche.exec(id, BURN);
		await crash(cloche);
		const { meters } = await cloche.get('GET', `/sandboxes/${id}`);
		near((await usage(cloche))[0].cpuSeconds - before.cpuSeconds, meters.cpuSeconds, 'while it runs');
		const stopped = (await cloche.get('POST', `/sandboxes/${id}/stop`, {})).meters;
		await crash(cloche);
		const [now] = await usage(cloche);
		near(now.cpuSeconds - before.cpuSeconds, stopped.cpuSeconds, 'when it is over');
		assert.equal(now.sandboxes, before.sandboxes + 1);
		await cloche.get('DELETE', `/sandboxes/${id}`);
		await crash(cloche);
		assert.deepEqual(await usage(cloche), [now]);
	});

	test('is counted, too, when it is lost', async () => {
		const [before = { cpuSeconds: 0 }] = await usage(cloche);
		const { id } = await cloche.create();
		await cloche.exec(id, BURN);
		await usage(cloche); // its keeper has told
		const keeper = fs.readFileSync(path.join(cloche.state, 'sandboxes', id, 'keeper'), 'utf8');
		process.kill(Number(/^pid=(\d+)$/m.exec(keeper)[1]), 'SIGKILL');
		await until(async () => (await cloche.get('GET', `/sandboxes/${id}`)).state === 'failed', 'it is lost');
		const [now] = await usage(cloche);
		assert.ok(now.cpuSeconds - before.cpuSeconds > 0.1, `${now.cpuSeconds} ${before.cpuSeconds}`);
		await cloche.get('DELETE', `/sandboxes/${id}`);
		assert.deepEqual(await usage(cloche), [now]);
	});
});

describe('a budget', () => {
	const cloche = withDaemon({ before, after }, { config: CONFIG, listen: '127.0.0.1:0' });
	const state = async (id) => (await cloche.get('GET', `/sandboxes/${id}`)).state;
	const kinds = async (id) => (await cloche.get('GET', `/sandboxes/${id}/events?limit=1000`)).items.map((one) => one.kind).filter((kind) => /budget|frozen|thawed/.test(kind));
	const limit = async (kind, subject, more, rest = {}) => {
		const { spent } = await cloche.get('PUT', `/budgets/${kind}/${subject}`, { amount: 1000 });
		return cloche.get('PUT', `/budgets/${kind}/${subject}`, { amount: Number((spent + more).toFixed(6)), ...rest });
	};
	const left = async (kind) => (await cloche.get('GET', '/budgets')).items.find((one) => one.kind === kind);

	test('of a key or team warns, stops what runs, and lets nothing start', async () => {
		const { id: key, secret } = await cloche.key({ name: 'payer' });
		const payer = await cloche.as(secret);
		const { id } = await payer.expect(201, 'POST', '/sandboxes', { name: 'worker' });
		for (const [kind, subject] of [['key', key], ['team', 'default']]) {
			await cloche.get('POST', `/sandboxes/${id}/execs`, BUSY);
			const { amount } = await limit(kind, subject, 0.002);
			await until(async () => (await state(id)) === 'stopped', 'it stops', 30000);
			const box = await cloche.get('GET', `/sandboxes/${id}`);
			assert.equal(box.endReason, 'budget', JSON.stringify(box));
			assert.match(box.detail, new RegExp(`budget of ${kind} .* is spent: \\$0\\.\\d+ of \\$${amount}$`));
			const { spent } = await left(kind);
			assert.ok(spent >= amount && spent < amount + 0.0015, `${spent} of ${amount}: within a second or so`);
			assert.deepEqual((await kinds(id)).slice(-2), ['budget.warning', 'budget.exhausted']);
			for (const route of ['/sandboxes', `/sandboxes/${id}/start`]) {
				const refused = await payer.api('POST', route, {});
				assert.equal(refused.status, 402, `${route} ${refused.bytes}`);
				assert.match(refused.body.detail, new RegExp(`budget of ${kind}`));
			}
			if (kind === 'team') assert.match((await cloche.cli(['run', 'true'])).stderr, /budget of team/);
			await cloche.get('DELETE', `/budgets/${kind}/${subject}`);
			await cloche.get('POST', `/sandboxes/${id}/start`, {});
		}
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('that freezes holds it still until it is raised, across a crash', async () => {
		const { id } = await cloche.create();
		await cloche.get('POST', `/sandboxes/${id}/execs`, BUSY);
		await limit('team', 'default', 0.001, { action: 'freeze' });
		const frozen = async () => (await cloche.get('GET', `/sandboxes/${id}`)).meters.frozen === 1;
		await until(frozen, 'it is frozen');
		await crash(cloche);
		assert.ok(await frozen());
		await cloche.get('PUT', '/budgets/team/default', { amount: 500, action: 'freeze' });
		await until(async () => !(await frozen()), 'it goes on');
		await until(async () => (await kinds(id)).join() === 'budget.warning,budget.exhausted,sandbox.frozen,sandbox.thawed', 'all of it is told, once');
		const { meters } = await cloche.get('GET', `/sandboxes/${id}`);
		await until(async () => (await cloche.get('GET', `/sandboxes/${id}`)).meters.cpuSeconds > meters.cpuSeconds + 0.1, 'it works');
		await cloche.get('DELETE', '/budgets/team/default');
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('of a run pays for what it makes', async () => {
		const make = 'id=$(cloche sandbox create -q 2>/dev/null || cloche sandbox create); cloche sandbox exec $id -- sh -c ';
		const run = (body) => cloche.get('POST', '/tasks/run', body, { headers: { Prefer: 'wait=60' } });
		const { task: free } = await run({ instruction: `${make} '${BURN}'` });
		const { run: receipt } = (await cloche.get('GET', `/tasks/${free.id}`)).task;
		await until(async () => (await usage(cloche, 'task')).find((row) => row.key === free.id).sandboxes === 1, 'it is counted');
		const row = (await usage(cloche, 'task')).find((one) => one.key === free.id);
		assert.ok(row.cpuSeconds > receipt.usage.cpuSeconds + 0.1, `${row.cpuSeconds} is more than ${receipt.usage.cpuSeconds}`);
		await until(async () => {
			const { totalCost, cost } = (await cloche.get('GET', `/tasks/${free.id}`)).task.run;
			return totalCost > cost && Math.abs(totalCost - row.cost) < 2e-6;
		}, 'its receipt has it');
		const { task: poor } = await run({ instruction: `${make} 'while :; do :; done'`, budget: 0.006, timeout: 60000 });
		assert.equal(poor.endReason, 'budget', JSON.stringify(poor.run));
		await until(async () => {
			const { totalCost, cost } = (await cloche.get('GET', `/tasks/${poor.id}`)).task.run;
			return totalCost >= 0.006 && totalCost > 1.5 * cost;
		}, 'what it made is on its account once it is gone');
		await until(async () => (await cloche.get('GET', '/sandboxes')).items.length === 0, 'nothing is left');
	});
});
