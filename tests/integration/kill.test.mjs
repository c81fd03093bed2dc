// Crashes: a keeper outlives daemon and broker, and the next start adopts what it keeps.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { CHANNEL, Daemon, isAlive, sleep, until } from './lib.mjs';

async function withRunning(fn) {
	const cloche = await Daemon.start();
	try {
		const box = (await cloche.create({ name: 'survivor' })).id;
		const { id } = await cloche.exec(box, 'i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.1; done', { background: true });
		const output = async () => String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes);
		await until(async () => (await output()).includes('tick 3'), 'it ticks');
		cloche.note();
		await fn({ cloche, box, id, output });
		await cloche.stop();
	} finally {
		await cloche.discard();
	}
}

// Ticks are numbered: output must go on without a gap or a repeat.
function assertGapless(text) {
	const ticks = text.match(/^tick \d+$/gm).map((line) => Number(line.slice(5)));
	assert.deepEqual(ticks, ticks.map((_, i) => i + 1));
	return ticks.length;
}

async function assertAdopted({ cloche, box, id, output }, before) {
	const exec = await cloche.get('GET', `/sandboxes/${box}/execs/${id}`);
	assert.equal(exec.state, 'running');
	const info = await cloche.get('GET', `/sandboxes/${box}`);
	assert.equal(info.state, 'running');
	await until(async () => assertGapless(await output()) > before + 3, 'it ticks on');
	assert.equal((await cloche.exec(box, 'echo new exec')).stdout, 'new exec\n');
	const { items } = await cloche.get('GET', '/events?limit=1000');
	assert.deepEqual(items.map((one) => one.seq), items.map((_, i) => i + 1), 'event numbers have no gap');
}

const answers = (cloche) => until(async () => (await cloche.api('GET', '/health')).status === 200, 'the daemon answers again');

describe('kill -9', () => {
	test('of cloched: the broker starts it again, everything goes on', () =>
		withRunning(async (running) => {
			const { cloche, output } = running;
			const before = assertGapless(await output());
			const old = cloche.daemonProcess();
			process.kill(old.pid, 'SIGKILL');
			await until(() => !isAlive(old), 'it is dead');
			await answers(cloche);
			assert.notEqual(cloche.daemonProcess().pid, old.pid);
			await assertAdopted(running, before);
		}));

	test('of the broker: cloched ends too, the next start adopts', () =>
		withRunning(async (running) => {
			const { cloche, output } = running;
			const before = assertGapless(await output());
			cloche.child.kill('SIGKILL');
			await cloche.ended;
			await sleep(300);
			await cloche.serve();
			await assertAdopted(running, before);
		}));

	test('of both at once', () =>
		withRunning(async (running) => {
			const { cloche, output } = running;
			const before = assertGapless(await output());
			process.kill(cloche.daemonProcess().pid, 'SIGKILL');
			cloche.child.kill('SIGKILL');
			await cloche.ended;
			await cloche.serve();
			await assertAdopted(running, before);
		}));

	test('of cloched, ten times: a counter in the background goes on without a gap', { timeout: 120000 }, () =>
		withRunning(async (running) => {
			const { cloche, output } = running;
			for (let i = 0; i < 10; i++) {
				const before = assertGapless(await output());
				const old = cloche.daemonProcess();
				process.kill(old.pid, 'SIGKILL');
				await until(() => !isAlive(old), 'it is dead');
				await answers(cloche);
				await assertAdopted(running, before);
				await sleep(800); // one that stayed up for a second is started again at once
			}
		}));

	test('of cloched: a terminal goes on from its cursor, what was typed arrives once', { timeout: 60000 }, () =>
		withRunning(async ({ cloche, box }) => {
			const shell = 'stty -echo; i=0; while read -r line; do i=$((i+1)); echo "$i:$line"; done';
			const { id } = await cloche.exec(box, shell, { tty: true, background: true });
			let seen = '';
			let offset = 0;
			for (let i = 1; i <= 5; i++) {
				const socket = await cloche.attach(box, id, `?offset=${offset}`);
				socket.send(CHANNEL.stdin, `word${i}\n`);
				while (!seen.includes(`${i}:word${i}`)) {
					const message = await socket.next();
					assert.notEqual(message[0], CHANNEL.gap, 'no gap');
					if (message[0] !== CHANNEL.stdout) continue;
					seen += message.subarray(1);
					offset += message.length - 1;
				}
				process.kill(cloche.daemonProcess().pid, 'SIGKILL');
				await until(() => socket.closed, 'the connection broke');
				await answers(cloche);
			}
			assert.deepEqual(seen.match(/\d+:word\d+/g), [1, 2, 3, 4, 5].map((i) => `${i}:word${i}`), 'each once, in order');
			const all = String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes);
			assert.equal(all.slice(0, seen.length), seen, 'the pieces are the whole');
		}));

	test('of the keeper: the sandbox is lost, and says so', () =>
		withRunning(async ({ cloche, box, id }) => {
			const { keeper } = readIdentity(cloche, box);
			process.kill(keeper, 'SIGKILL');
			const info = await until(async () => {
				const one = await cloche.get('GET', `/sandboxes/${box}`);
				return one.state === 'failed' && one;
			}, 'it failed');
			assert.equal(info.endReason, 'lost');
			const exec = await cloche.get('GET', `/sandboxes/${box}/execs/${id}`);
			assert.equal(exec.state, 'ended');
			await cloche.get('DELETE', `/sandboxes/${box}?force=1`);
		}));

	test('an end that nobody saw is known afterwards', () =>
		withRunning(async ({ cloche, box }) => {
			const { id } = await cloche.exec(box, 'sleep 1; echo done; exit 9', { background: true });
			cloche.child.kill('SIGKILL');
			await cloche.ended;
			await sleep(1500);
			await cloche.serve();
			const exec = await until(async () => {
				const one = await cloche.get('GET', `/sandboxes/${box}/execs/${id}`);
				return one.state === 'ended' && one;
			}, 'it ended');
			assert.equal(exec.exitCode, 9);
			assert.equal(String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes), 'done\n');
		}));

	test('a deadline holds without a daemon', () =>
		withRunning(async ({ cloche }) => {
			const { id } = await cloche.create({ ttl: 1500 });
			cloche.note();
			cloche.child.kill('SIGKILL');
			await cloche.ended;
			await sleep(2500);
			await cloche.serve();
			const info = await until(async () => {
				const one = await cloche.get('GET', `/sandboxes/${id}`);
				return one.state === 'stopped' && one;
			}, 'it stopped');
			assert.equal(info.endReason, 'ttl');
		}));

	test('while sandboxes are being made: each ends in a state that says why', { timeout: 120000 }, async () => {
		const cloche = await Daemon.start();
		try {
			for (let round = 0; round < 4; round++) {
				const making = Array.from({ length: 4 }, () => cloche.api('POST', '/sandboxes', {}).catch(() => null));
				await sleep(round * 15);
				process.kill(cloche.daemonProcess().pid, 'SIGKILL');
				const answered = (await Promise.all(making)).filter((one) => one?.status === 201).map((one) => one.body.id);
				await answers(cloche);
				for (const id of answered) assert.equal((await cloche.get('GET', `/sandboxes/${id}`)).state, 'running', 'what was acknowledged is there');
				await until(async () => (await cloche.get('GET', '/sandboxes?state=creating')).items.length === 0, 'none is left half-made');
				cloche.note();
			}
			const { items } = await cloche.get('GET', '/sandboxes');
			for (const one of items) await cloche.get('DELETE', `/sandboxes/${one.id}?force=1`);
			assert.deepEqual(fs.readdirSync(path.join(cloche.state, 'sandboxes')), [], 'no folder without a sandbox');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});
});

function readIdentity(cloche, box) {
	const text = fs.readFileSync(path.join(cloche.state, 'sandboxes', box, 'keeper'), 'utf8');
	const keeper = Number(/pid=?\s*(\d+)/.exec(text)?.[1] ?? text.match(/\d+/)[0]);
	return { keeper };
}

describe('the end', () => {
	test('SIGTERM leaves sandboxes running', () =>
		withRunning(async (running) => {
			const { cloche, output } = running;
			const before = assertGapless(await output());
			cloche.child.kill('SIGTERM');
			const { code, signal } = await cloche.ended;
			assert.ok(code === 0 || signal === 'SIGTERM', `${code} ${signal}`);
			await sleep(300);
			await cloche.serve();
			await assertAdopted(running, before);
		}));

	test('cloche stop with everything dead but the keepers', async () => {
		const cloche = await Daemon.start();
		try {
			const box = (await cloche.create()).id;
			await cloche.exec(box, 'sleep 1000', { background: true });
			cloche.note();
			process.kill(cloche.daemonProcess().pid, 'SIGKILL');
			cloche.child.kill('SIGKILL');
			await cloche.ended;
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('cloche stop ends all and says nothing is left; twice is fine', async () => {
		const cloche = await Daemon.start();
		try {
			for (let i = 0; i < 3; i++) await cloche.create();
			cloche.note();
			const first = await cloche.cli(['stop']);
			assert.equal(first.code, 0, first.stderr);
			await cloche.assertNothingLeft();
			const second = await cloche.cli(['stop']);
			assert.equal(second.code, 0, second.stderr);
			await cloche.serve();
			const { items } = await cloche.get('GET', '/sandboxes');
			assert.deepEqual(items.map((one) => one.state).filter((state) => state === 'running'), []);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});
});
