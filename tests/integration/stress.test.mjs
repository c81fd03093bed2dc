// Many sandboxes at once and one after the other: nothing piles up, the end is quick.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { Daemon, mountsWith, openFiles, residentBytes, until } from './lib.mjs';

describe('many sandboxes', () => {
	test('come and go without leaving anything in daemon or broker', { timeout: 300000 }, async () => {
		const cloche = await Daemon.start();
		try {
			const life = async () => {
				const { id } = await cloche.get('POST', '/sandboxes', {});
				assert.equal((await cloche.exec(id, 'echo x')).stdout, 'x\n');
				await cloche.get('DELETE', `/sandboxes/${id}?force=1`);
			};
			const rounds = async (count) => {
				for (let i = 0; i < count; i++) await Promise.all([life(), life(), life(), life()]);
			};
			await rounds(5);
			const measure = () => [cloche.child.pid, cloche.daemonProcess().pid].map((pid) => ({ files: openFiles(pid), bytes: residentBytes(pid) }));
			const before = measure();
			await rounds(25);
			await until(() => measure().every((now, i) => now.files <= before[i].files + 2), 'descriptors are given back');
			measure().forEach((now, i) => assert.ok(now.bytes - before[i].bytes < 6 << 20, `grew by ${now.bytes - before[i].bytes} bytes`));
			assert.deepEqual(fs.readdirSync(path.join(cloche.state, 'sandboxes')), []);
			assert.deepEqual(mountsWith(cloche.folder), []);
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('forty live together and end together', { timeout: 120000 }, async () => {
		const cloche = await Daemon.start();
		try {
			const made = [];
			for (let i = 0; i < 10; i++) made.push(...(await Promise.all(Array.from({ length: 4 }, () => cloche.get('POST', '/sandboxes', { limits: { memory: '64M' } })))));
			const results = await Promise.all(made.map((one, i) => cloche.exec(one.id, `sleep 1000 >/dev/null 2>&1 & echo ${i}`)));
			results.forEach((one, i) => assert.equal(one.stdout, `${i}\n`));
			assert.equal(new Set((await Promise.all(made.map((one) => cloche.exec(one.id, 'cat /proc/self/uid_map')))).map((one) => one.stdout)).size, made.length, 'no two share a range');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('orders in any order end in a legal state', { timeout: 120000 }, async () => {
		const cloche = await Daemon.start();
		try {
			let seed = 42;
			const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
			const names = ['a', 'b', 'c'];
			const orders = [
				(name) => cloche.api('POST', '/sandboxes', { name }),
				(name) => cloche.api('POST', `/sandboxes/${name}/stop`, { graceMs: random(50) }),
				(name) => cloche.api('POST', `/sandboxes/${name}/start`),
				(name) => cloche.api('DELETE', `/sandboxes/${name}?force=1`),
				(name) => cloche.api('DELETE', `/sandboxes/${name}`),
				(name) => cloche.api('POST', `/sandboxes/${name}/execs`, { shell: 'sleep 0.05; echo x' }),
				(name) => cloche.api('GET', `/sandboxes/${name}`),
				(name) => cloche.api('PATCH', `/sandboxes/${name}`, { labels: { n: String(random(9)) } }),
			];
			for (let round = 0; round < 40; round++) {
				const answers = await Promise.all(Array.from({ length: 6 }, () => orders[random(orders.length)](names[random(names.length)])));
				for (const answer of answers) assert.ok(answer.status < 500 || answer.status === 503, `${answer.status} ${answer.bytes}`);
			}
			await until(async () => (await cloche.get('GET', '/sandboxes')).items.every((one) => ['running', 'stopped', 'failed'].includes(one.state)), 'no state without an end');
			for (const one of (await cloche.get('GET', '/sandboxes')).items) await cloche.get('DELETE', `/sandboxes/${one.id}?force=1`);
			await until(() => fs.readdirSync(path.join(cloche.state, 'sandboxes')).length === 0, 'no folder is left');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});
});
