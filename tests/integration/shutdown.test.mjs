// Ending: everything within a bound, or only who serves; and going on with other programs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { Daemon, clocheBin, clochedBin, isAlive, run, until } from './lib.mjs';

const MANY = 100;
const SMALL = '[sandboxes.default]\npool = 0\nmemory = "64M"\ndisk = "8M"\ndisk_backend = "tmpfs"\npids = 32\n';

async function withDaemon(options, body) {
	const cloche = await Daemon.start(options);
	try {
		await body(cloche);
	} finally {
		await cloche.discard();
	}
}

async function createMany(cloche, count) {
	const boxes = [];
	let left = count;
	const work = async () => {
		while (left-- > 0) boxes.push((await cloche.get('POST', '/sandboxes', {})).id);
	};
	await Promise.all(Array.from({ length: 8 }, work));
	cloche.note();
	return boxes;
}

const answers = (cloche) => until(async () => (await cloche.api('GET', '/health')).status === 200, 'the daemon answers again');

describe('cloche stop', () => {
	test(`ends ${MANY} sandboxes within a bound, also those that do not want to`, { timeout: 120000 }, () =>
		withDaemon({ config: SMALL }, async (cloche) => {
			const boxes = await createMany(cloche, MANY);
			for (const id of boxes.slice(0, 5)) await cloche.exec(id, 'trap "" TERM; while :; do sleep 1; done', { background: true });
			await cloche.ok(['stop', '--stop-all', '--grace', '1s']);
			await cloche.assertNothingLeft();
			await cloche.serve();
			const { items } = await cloche.get('GET', '/sandboxes?limit=1000');
			assert.deepEqual([...new Set(items.map((one) => one.state))], ['stopped']);
			assert.equal(items.length, MANY);
			await cloche.stop();
		}));

	test('--keep ends broker and daemon; sandboxes run on and are adopted', () =>
		withDaemon({}, async (cloche) => {
			const box = (await cloche.create()).id;
			const { id } = await cloche.exec(box, 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done', { background: true });
			const output = async () => String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes).trim().split('\n').map(Number);
			await until(async () => (await output()).length > 3, 'it counts');
			const daemon = cloche.daemonProcess();
			await cloche.ok(['stop', '--keep']);
			assert.equal((await cloche.ended).code, 0);
			assert.ok(!isAlive(daemon), 'cloched ended');
			await cloche.ok(['stop', '--keep']); // nobody serves: nothing to do, nothing harmed
			await cloche.serve();
			assert.equal((await cloche.get('GET', `/sandboxes/${box}`)).state, 'running');
			const before = (await output()).length;
			await until(async () => (await output()).length > before + 3, 'it counts on');
			const numbers = await output();
			assert.deepEqual(numbers, numbers.map((_, i) => i + 1));
			await cloche.stop();
		}));

	test('--keep and --stop-all exclude each other', () =>
		withDaemon({}, async (cloche) => {
			const { code, stderr } = await cloche.cli(['stop', '--keep', '--stop-all']);
			assert.equal(code, 64);
			assert.match(stderr, /exclude/);
			assert.equal((await cloche.cli(['stop', '--grace', '6m'])).code, 64);
			// A daemon elsewhere is meant: the one here goes on.
			assert.match((await cloche.cli(['--url', 'http://127.0.0.1:1', 'stop'])).stderr, /this machine alone/);
			assert.equal((await cloche.api('GET', '/health')).status, 200);
			await cloche.stop();
		}));
});

describe('upgrade', () => {
	test('both programs are replaced while sandboxes run; the new ones adopt them', async () => {
		const files = () => [clocheBin(), clochedBin()];
		let folder;
		const install = () => {
			for (const file of files()) {
				const name = path.join(folder, path.basename(file));
				fs.copyFileSync(file, `${name}.new`);
				fs.chmodSync(`${name}.new`, 0o755);
				fs.renameSync(`${name}.new`, name);
			}
		};
		const cloche = new Daemon({ wrap: (file, args) => [path.join(folder, path.basename(file)), args] });
		folder = path.join(cloche.folder, 'bin');
		fs.mkdirSync(folder, { mode: 0o755 });
		install();
		try {
			await cloche.serve();
			const box = (await cloche.create()).id;
			const { id } = await cloche.exec(box, 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done', { background: true });
			const pid = (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).pid;
			const output = async () => String((await cloche.api('GET', `/sandboxes/${box}/execs/${id}/output`)).bytes).trim().split('\n').map(Number);
			await until(async () => (await output()).length > 3, 'it counts');
			cloche.note();
			for (let round = 0; round < 2; round++) {
				const before = (await output()).length;
				install();
				const daemon = cloche.daemonProcess();
				process.kill(daemon.pid, 'SIGKILL');
				cloche.child.kill('SIGKILL');
				await cloche.ended;
				await until(() => !isAlive(daemon), 'both are dead');
				await cloche.serve();
				assert.equal(fs.readlinkSync(`/proc/${cloche.child.pid}/exe`), path.join(folder, 'cloche'));
				assert.equal((await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).pid, pid);
				await until(async () => (await output()).length > before + 3, 'it counts on');
				assert.equal((await cloche.exec(box, 'echo new')).stdout, 'new\n');
			}
			const numbers = await output();
			assert.deepEqual(numbers, numbers.map((_, i) => i + 1), 'no gap, no repeat');
			await cloche.stop();
		} finally {
			await cloche.discard();
		}
	});

	test('a daemon alone is replaced by the broker that runs', () =>
		withDaemon({}, async (cloche) => {
			const box = (await cloche.create()).id;
			process.kill(cloche.daemonProcess().pid, 'SIGKILL');
			await answers(cloche);
			assert.equal((await cloche.exec(box, 'echo here')).stdout, 'here\n');
			await cloche.stop();
		}));

	test('a store of a newer version is refused with a sentence that says what to do', () =>
		withDaemon({}, async (cloche) => {
			await cloche.ok(['stop']);
			await cloche.ended;
			const file = path.join(cloche.state, 'store/cloche.db');
			const change = (statement) => run('python3', ['-c', 'import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db: db.execute(sys.argv[2])', file, statement]);
			assert.equal((await change("INSERT INTO schema_versions VALUES (9999, 'later', 0, '99.1.0')")).code, 0);
			assert.equal(await cloche.serve().then(() => true, () => false), false, 'it ends');
			assert.match(cloche.log, /written by cloche 99\.1\.0 \(schema 9999\).*start the newer version/);
			assert.equal((await change('DELETE FROM schema_versions WHERE version = 9999')).code, 0);
			await cloche.serve();
			await cloche.stop();
		}));
});
