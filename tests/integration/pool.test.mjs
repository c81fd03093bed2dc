// Sandboxes made in advance: claimed once, bound before the first command, gone with their daemon.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Daemon } from './lib/daemon.mjs';
import { until } from './lib/http.mjs';

const POOL = 3;
const config = (more = '') => `[sandboxes.default]\npool = ${POOL}\n${more}`;

const folders = (cloche) => fs.readdirSync(path.join(cloche.state, 'sandboxes'));
const filled = (cloche, count = POOL) => until(() => folders(cloche).length === count, `${count} are made`);

async function withPool(body, more) {
	const cloche = await Daemon.start({ config: config(more) });
	try {
		await filled(cloche);
		await sleep(200); // the last one was launched; now it is connected
		await body(cloche);
		await cloche.stop();
	} finally {
		await cloche.discard();
	}
}

describe('pool', () => {
	test('parked ones are nobody\'s: not listed, no events', () =>
		withPool(async (cloche) => {
			assert.deepEqual((await cloche.get('GET', '/sandboxes')).items, []);
			const { items } = await cloche.get('GET', '/events');
			assert.ok(!items.some((event) => event.kind?.startsWith('sandbox.')), JSON.stringify(items));
		}));

	test('a create takes a parked one, binds it, and the stock is made up', () =>
		withPool(async (cloche) => {
			const parked = folders(cloche);
			const box = await cloche.create({ env: { WHO: 'me' }, cwd: '/tmp', labels: { a: 'b' }, ttl: 3600000 });
			assert.ok(parked.includes(box.id), 'one that was there before');
			assert.equal(box.state, 'running');
			assert.deepEqual(box.labels, { a: 'b' });
			const { stdout } = await cloche.get('POST', `/sandboxes/${box.id}/execs`, { shell: 'echo $WHO; pwd; id -un' });
			assert.equal(stdout, 'me\n/tmp\nagent\n');
			await filled(cloche, POOL + 1);
			const short = await cloche.create({ ttl: 1000 });
			const ended = await cloche.get('GET', `/sandboxes/${short.id}/wait?timeoutMs=30000`);
			assert.deepEqual([ended.state, ended.endReason], ['stopped', 'ttl']);
		}));

	test('each is used once', () =>
		withPool(async (cloche) => {
			const boxes = await Promise.all(Array.from({ length: POOL * 2 }, () => cloche.create()));
			assert.equal(new Set(boxes.map((one) => one.id)).size, POOL * 2);
			const first = await cloche.get('POST', `/sandboxes/${boxes[0].id}/execs`, { shell: 'echo x > /workspace/f' });
			assert.equal(first.exitCode, 0);
			await cloche.api('DELETE', `/sandboxes/${boxes[0].id}?force=1`);
			const next = await cloche.create();
			assert.notEqual(next.id, boxes[0].id);
			const { stdout } = await cloche.get('POST', `/sandboxes/${next.id}/execs`, { shell: 'ls /workspace' });
			assert.equal(stdout, '');
		}));

	test('what a parked one cannot become is made the long way', () =>
		withPool(async (cloche) => {
			const parked = folders(cloche);
			const box = await cloche.create({ diskBackend: 'sampled', degraded: true });
			assert.ok(!parked.includes(box.id));
		}));

	test('parked ones end with their daemon, claimed ones do not', () =>
		withPool(async (cloche) => {
			const box = await cloche.create();
			await filled(cloche, POOL + 1);
			const before = folders(cloche);
			process.kill(cloche.daemonProcess().pid, 'SIGKILL');
			await until(async () => (await cloche.api('GET', '/health').catch(() => null))?.status === 200, 'a new daemon');
			await until(() => folders(cloche).filter((id) => before.includes(id)).length === 1, 'the old stock is gone');
			assert.equal((await cloche.get('GET', `/sandboxes/${box.id}`)).state, 'running');
			await filled(cloche, POOL + 1);
		}));
});
