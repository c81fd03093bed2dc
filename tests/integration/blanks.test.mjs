// Sandboxes kept ready without an image: used once, for any image, and gone with whoever could use them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { allProcesses, isAlive } from './lib/host.mjs';
import { call, until } from './lib/http.mjs';

const BLANKS = 2;
const config = `[sandboxes]
blanks = ${BLANKS}
[sandboxes.default]
pool = 0
`;

describe('blank sandboxes', () => {
	let cloche;
	const folders = () => fs.readdirSync(path.join(cloche.state, 'sandboxes'));
	const metric = async (name) => {
		const { bytes } = await call(cloche.socket, 'GET', '/metrics');
		const line = String(bytes).split('\n').find((one) => one.startsWith(`${name} `));
		return Number(line?.split(' ')[1]);
	};
	const filled = () => until(async () => (await metric('cloche_blanks_ready')) === BLANKS, 'blank ones are there');
	const create = async (args = []) => JSON.parse(await cloche.ok(['-o', 'json', 'sandbox', 'create', ...args]));
	const remove = (id) => cloche.get('DELETE', `/sandboxes/${id}?force=1`);
	const keeper = (id) => Number(/pid=(\d+)/.exec(fs.readFileSync(path.join(cloche.state, 'sandboxes', id, 'keeper'), 'utf8'))[1]);

	before(async () => {
		cloche = await Daemon.start({ config });
	});
	after(() => cloche?.stop());

	test('one becomes what is asked for, and another takes its place', async () => {
		await filled();
		const before = folders();
		const hits = await metric('cloche_blanks_hits_total');
		const box = await create(['--name', 'first', '-m', '128M']);
		assert.ok(before.includes(box.id), 'made in advance');
		assert.equal(await metric('cloche_blanks_hits_total'), hits + 1);
		const { stdout } = await cloche.exec(box.id, 'hostname; grep -c . /proc/self/mountinfo >/dev/null && echo here');
		assert.equal(stdout, 'first\nhere\n');
		await filled();
		assert.equal(folders().length, BLANKS + 1);
		await remove(box.id);
	});

	test('one whose spawner is gone ends, and does not look ready', async () => {
		await filled();
		for (const id of folders()) {
			const init = allProcesses().find((info) => info.ppid === keeper(id));
			process.kill(allProcesses().find((info) => info.ppid === init.pid).pid, 'SIGKILL');
			await until(() => !isAlive(init), 'it ended');
		}
		const box = await create();
		assert.equal((await cloche.exec(box.id, 'echo here')).stdout, 'here\n');
		await remove(box.id);
	});

	test('a stopped one keeps its files', async () => {
		await filled();
		const box = await create();
		await cloche.exec(box.id, 'echo kept > /workspace/file');
		await cloche.ok(['sandbox', 'stop', box.id]);
		await cloche.ok(['sandbox', 'start', box.id]);
		assert.equal((await cloche.exec(box.id, 'cat /workspace/file')).stdout, 'kept\n');
		await remove(box.id);
	});

	test('its time to live is kept', async () => {
		await filled();
		const box = await create(['--ttl', '1s']);
		await until(async () => (await cloche.get('GET', `/sandboxes/${box.id}`)).state !== 'running', 'it ended');
		await remove(box.id);
	});

	test('another size of the disk is made for the request', async () => {
		await filled();
		const before = folders();
		const box = await create(['--disk', '64M']);
		assert.ok(!before.includes(box.id));
		await remove(box.id);
	});

	test('one that died is replaced by one made for the request', async () => {
		await filled();
		for (const id of folders()) process.kill(keeper(id), 'SIGKILL');
		const box = await create();
		assert.equal((await cloche.exec(box.id, 'echo here')).stdout, 'here\n');
		await remove(box.id);
	});

	test('they go with the daemon that had them made', async () => {
		await filled();
		const old = folders();
		process.kill(cloche.daemonProcess().pid, 'SIGKILL');
		await until(async () => (await cloche.api('GET', '/health').catch(() => null))?.status === 200, 'a new daemon');
		await until(() => old.every((id) => !folders().includes(id)), 'the old ones are gone');
		await filled();
		assert.equal(folders().length, BLANKS);
	});
});
