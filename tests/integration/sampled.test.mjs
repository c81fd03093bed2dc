// disk_backend "sampled": files are counted once in a while, and who is over the limit loses its
// commands. As root with a range of ids, and as an ordinary user.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { isRoot, ordinaryUser, processInfo, sleep, until, withDaemon } from './lib.mjs';

const MiB = 1 << 20;

function suite(cloche) {
	const make = (limits = { disk: 8 * MiB, inodes: 1000 }) => cloche.create({ degraded: true, diskBackend: 'sampled', limits });
	const limitEvents = async (box) =>
		(await cloche.get('GET', `/sandboxes/${box}/events?limit=1000`)).items.filter((one) => one.kind === 'sandbox.limit' && one.data.reason === 'disk');
	const execInfo = (box, id) => cloche.get('GET', `/sandboxes/${box}/execs/${id}`);
	const diskBytes = async (box) => (await cloche.get('GET', `/sandboxes/${box}`)).meters.diskBytes;
	const remove = (box) => cloche.get('DELETE', `/sandboxes/${box}?force=1`);

	test('it is shown as degraded, and refused where that is not wanted', async () => {
		const box = await make();
		assert.equal(box.degraded, true);
		assert.equal(box.isolation.disk, 'sampled');
		assert.ok(box.isolation.degraded.includes('disk limit'), JSON.stringify(box.isolation));
		await remove(box.id);
		const refused = await cloche.api('POST', '/sandboxes', { diskBackend: 'sampled' });
		assert.equal(refused.status, 503, String(refused.bytes));
	});

	test('the meters follow the files', async () => {
		const { id } = await make();
		await cloche.exec(id, 'head -c 3M /dev/urandom > kept');
		await until(async () => (await diskBytes(id)) >= 3 * MiB, 'the file is counted');
		const { meters } = await cloche.get('GET', `/sandboxes/${id}`);
		assert.ok(meters.diskBytes < 4 * MiB, `${meters.diskBytes}`);
		assert.ok(meters.inodes >= 1 && meters.inodes < 200, `${meters.inodes}`);
		await cloche.exec(id, 'rm kept');
		await until(async () => (await diskBytes(id)) < MiB, 'it is gone');
		assert.deepEqual(await limitEvents(id), []);
		await remove(id);
	});

	test('too many bytes end every command, and what a command left behind', { timeout: 60000 }, async () => {
		const { id } = await make();
		const quiet = await cloche.exec(id, 'sleep 300', { background: true });
		await cloche.exec(id, 'setsid sh -c "echo \\$\\$ > left; exec sleep 300" > /dev/null 2>&1 &');
		await until(async () => (await cloche.exec(id, 'cat left')).stdout, 'it left something behind');
		const filler = await cloche.exec(id, 'while :; do head -c 1M /dev/urandom >> big; done');
		assert.equal(filler.reason, 'disk', JSON.stringify(filler));
		assert.equal(filler.signal, 9);
		await until(async () => (await execInfo(id, quiet.id)).state === 'ended', 'the quiet one ended too');
		assert.equal((await execInfo(id, quiet.id)).reason, 'disk');
		assert.notEqual((await cloche.exec(id, 'kill -0 $(cat left)')).exitCode, 0, 'what was left behind is gone');
		const [event] = await until(async () => ((await limitEvents(id)).length ? limitEvents(id) : null), 'an event names it');
		assert.match(event.data.detail, /bytes of 8388608/);
		assert.equal((await cloche.get('GET', `/sandboxes/${id}`)).state, 'running', 'the sandbox stays');

		// Over the limit commands may run and make room, but not write more.
		assert.equal((await cloche.exec(id, 'sleep 2.5; echo still')).stdout, 'still\n');
		const more = await cloche.exec(id, 'while :; do head -c 1M /dev/urandom >> more; sleep 0.05; done');
		assert.equal(more.reason, 'disk');
		assert.equal((await cloche.exec(id, 'rm big more')).exitCode, 0);
		await until(async () => (await diskBytes(id)) < MiB, 'room is back');
		assert.equal((await cloche.exec(id, 'head -c 4M /dev/zero > fits; sleep 2; echo kept')).stdout, 'kept\n');
		await remove(id);
	});

	test('too many files', { timeout: 60000 }, async () => {
		const { id } = await make();
		const result = await cloche.exec(id, ['python3', '-c', 'import time\nfor i in range(5000): open(str(i), "w")\ntime.sleep(300)']);
		assert.equal(result.reason, 'disk', JSON.stringify(result));
		await until(async () => (await limitEvents(id)).some((one) => /files of 1000/.test(one.data.detail)), 'an event names it');
		await remove(id);
	});

	test('one file larger than all of it', async () => {
		const { id } = await make();
		const result = await cloche.exec(id, ['head', '-c', '9M', '/dev/zero'].join(' ') + ' > big');
		assert.notEqual(result.exitCode, 0);
		assert.equal((await cloche.exec(id, 'exec dd if=/dev/zero of=big bs=1M count=9')).reason, 'disk');
		await remove(id);
	});

	test('an upload that does not fit is cut off', { timeout: 60000 }, async () => {
		const { id } = await make();
		const { Readable } = await import('node:stream');
		let sent = 0;
		const endless = Readable.from(
			(async function* () {
				for (; sent < 512; sent++) {
					yield Buffer.alloc(MiB, sent);
					await sleep(sent > 16 ? 100 : 0);
				}
			})(),
		);
		const answer = await cloche.api('PUT', `/sandboxes/${id}/files?path=/workspace/upload`, endless).catch((error) => error);
		endless.destroy();
		assert.ok(sent < 512, 'not all of it was taken');
		assert.equal(answer.status, 507, String(answer.bytes ?? answer));
		await remove(id);
	});

	test('a tree that moves while it is counted hides nothing', { timeout: 90000 }, async () => {
		const { id } = await make();
		const script = [
			'import os, time',
			'for side in ("a", "b"): os.makedirs(side)',
			'deep = "a/" + "/".join(["d"] * 60)',
			'os.makedirs(deep)',
			'end = time.time() + 60',
			'while time.time() < end:',
			'    for i in range(200):',
			'        os.rename("a/d", "b/d"); os.rename("b/d", "a/d")',
			'    open("fill%d" % int(time.time() * 1000), "wb").write(bytes(65536))',
		].join('\n');
		const result = await cloche.exec(id, ['python3', '-c', script]);
		assert.equal(result.reason, 'disk', JSON.stringify(result));
		await remove(id);
	});

	test('a daemon that was killed goes on counting', { timeout: 60000 }, async () => {
		const { id } = await make();
		const victim = cloche.daemonProcess();
		process.kill(victim.pid, 'SIGKILL');
		await until(() => !processInfo(victim.pid), 'the daemon is gone');
		await until(async () => (await cloche.api('GET', '/health')).status === 200, 'its successor answers');
		const result = await cloche.exec(id, 'while :; do head -c 1M /dev/urandom >> big; done');
		assert.equal(result.reason, 'disk');
		await remove(id);
	});
}

describe('sampled disks', { skip: isRoot ? false : 'needs root' }, () => suite(withDaemon({ before, after })));
describe('sampled disks of an ordinary user', { skip: isRoot ? false : 'needs root to become an ordinary user' }, () => suite(withDaemon({ before, after }, { user: ordinaryUser })));
