// Single faults that must stay visible or pass unnoticed: output the disk did not take, input on a
// connection that was cut, a loop that takes no more sources, an end the store refused.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { ERRNO, HurtDaemon } from '../fault/lib.mjs';
import { filesAsTar, isRoot, sleep, until } from './lib.mjs';

const LINES = 'for i in $(seq 1 20); do echo line $i; sleep 0.01; done';

describe('one fault', { skip: !isRoot }, () => {
	let cloche, box;
	before(async () => {
		cloche = await HurtDaemon.start();
		box = (await cloche.create()).id;
	});
	after(async () => {
		await cloche.end();
	});

	/** With the rule in force until fn is over. */
	async function under(rule, fn) {
		await cloche.inject(rule);
		try {
			return await fn();
		} finally {
			const { hits } = await cloche.calm();
			assert.ok(hits > 0, `${rule}: it was hit`);
			await cloche.recover();
		}
	}

	/** What a later reader is shown: {text, gaps}. */
	async function read(exec) {
		const events = await cloche.events(`/sandboxes/${box}/execs/${exec}/output`);
		const seen = { text: '', gaps: 0, isEnded: false, offset: 0 };
		for (let event = await events.next(); event; event = await events.next()) {
			const record = JSON.parse(event.data);
			if (record.stream === 'gap') seen.gaps++;
			else assert.equal(record.offset, seen.offset, 'offsets go on, or a gap says why not');
			if (record.data !== undefined) seen.text += Buffer.from(record.data, 'base64');
			if (record.stream === 'exit') seen.isEnded = true;
			seen.offset = record.offset + (record.data === undefined ? 0 : Buffer.from(record.data, 'base64').length);
		}
		return seen;
	}

	for (const [name, rule] of [
		['a line in the middle', `fail cloche-keeper pwritev 5 ${ERRNO.ENOSPC}`],
		['everything, the end too', `fail cloche-keeper pwritev 1 ${ERRNO.ENOSPC} forever`],
		['the second half', `fail cloche-keeper pwritev 10 ${ERRNO.EIO} forever`],
	]) {
		test(`output the disk does not take: ${name}`, async () => {
			const answer = await under(rule, () => cloche.exec(box, LINES));
			assert.equal(answer.exitCode, 0);
			assert.equal(answer.truncated, true, 'the answer says that there was more');
			const seen = await read(answer.id);
			assert.ok(seen.gaps > 0, 'a later reader is shown the gap');
			assert.equal(seen.text, answer.stdout);
			const whole = await cloche.exec(box, LINES);
			assert.equal(whole.truncated, false);
			assert.equal(whole.stdout.split('\n').length, 21);
		});
	}

	test('an attached reader is shown the gap while the command runs', async () => {
		const { id } = await cloche.exec(box, 'echo first; read x; echo lost; sleep 0.2; echo $x; read y; exit 3', { attach: true, stdin: true });
		const socket = await cloche.attach(box, id);
		await socket.expect('first');
		await under(`fail cloche-keeper pwritev 1 ${ERRNO.ENOSPC} forever`, async () => {
			socket.send(0, 'word\n');
			const message = await socket.next();
			assert.equal(message[0], 6, 'a gap');
		});
		socket.send(0, 'end\n');
		const { exit } = await socket.finish();
		assert.equal(exit.exitCode, 3);
	});

	test('a command that prints on a full disk is not held for ever', async () => {
		const answer = await under(`fail cloche-keeper pwritev 1 ${ERRNO.ENOSPC} forever`, () => cloche.exec(box, 'head -c 5000000 /dev/zero | tr "\\0" x'));
		assert.equal(answer.exitCode, 0);
		assert.equal(answer.truncated, true);
	});

	test('input on a connection that is cut goes on where it was', { timeout: 240000 }, async () => {
		const bytes = Buffer.alloc(700000);
		for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 7 + (i >> 8)) & 255;
		let cuts = 0;
		for (let n = 1; n < 60; n++) {
			await cloche.inject(`fail cloched sendmsg ${n} ${ERRNO.EIO}`);
			const answer = await cloche.ask('PUT', `/sandboxes/${box}/files?path=/workspace/f${n}`, bytes, { ms: 30000 });
			const { hits } = await cloche.calm();
			await cloche.recover();
			if (answer?.status === 204) {
				const got = await cloche.api('GET', `/sandboxes/${box}/files?path=/workspace/f${n}`);
				assert.ok(got.bytes.equals(bytes), `cut ${n}: whole`);
			} else {
				assert.ok(answer === null || answer.body?.detail, `cut ${n}: ${answer?.status} says why`);
			}
			await cloche.exec(box, `rm -f /workspace/f${n}`);
			cuts += hits;
			if (!hits) break;
		}
		assert.ok(cuts > 3, `it was cut ${cuts} times`);
	});

	test('a loop that takes no more sources: the command waits, nothing is lost', async () => {
		for (let n = 1; n < 12; n++) {
			await cloche.inject(`fail cloche-keeper epoll_ctl ${n} ${ERRNO.ENOMEM}`);
			const answer = await cloche.ask('POST', `/sandboxes/${box}/execs`, { shell: 'cat; echo out; echo err >&2; exit 5', input: 'in\n' });
			const { hits } = await cloche.calm();
			await cloche.recover();
			if (answer.status === 200) {
				assert.equal(answer.body.exitCode, 5, `${n}: ${answer.bytes}`);
				assert.equal(answer.body.stdout, 'in\nout\n');
				assert.equal(answer.body.stderr, 'err\n');
			} else {
				assert.ok(answer.body?.detail, `${n}: ${answer.status} says why`);
			}
			if (!hits) return assert.ok(n > 3, `${n - 1} sources`);
		}
	});

	test('an import whose process dies leaves nothing', { timeout: 120000 }, async () => {
		const layers = path.join(cloche.state, 'layers');
		const before = fs.readdirSync(layers).sort();
		const bytes = filesAsTar(Array.from({ length: 20 }, (_, i) => [`file${i}`, Buffer.alloc(5000, 'x')]));
		// Between 8 and 10 a process was just forked that must not outlive the one that dies.
		for (const [role, steps] of [['cloche:tasks', [2, 8, 9, 10, 12, 30]], ['worker', [2, 12, 30]]])
			for (const n of steps) {
				const answer = await under(`kill ${role} step ${n}`, () => cloche.ask('POST', '/images?name=half&format=tar', bytes, { headers: { 'content-type': 'application/octet-stream' } }));
				assert.ok(answer.status >= 400 && answer.body.detail, `${role} ${n}: ${answer.status} ${answer.bytes}`);
				await until(() => fs.readdirSync(layers).sort().join() === before.join(), `${role} ${n}: nothing half-made stays`).catch((error) => {
					throw new Error(`${error.message}: ${fs.readdirSync(layers)}`);
				});
			}
		const made = await cloche.ask('POST', '/images?name=whole&format=tar', bytes, { headers: { 'content-type': 'application/octet-stream' } });
		assert.equal(made.status, 201, String(made.bytes));
	});

	test('an end the store refused is known soon, again and again', { timeout: 120000 }, async () => {
		for (let round = 0; round < 2; round++) {
			const { id } = await cloche.exec(box, 'sleep 0.5', { background: true });
			await cloche.inject(`fail cloched fdatasync 1 ${ERRNO.EIO} forever`);
			await sleep(1200);
			await cloche.calm();
			await cloche.recover();
			const state = async () => (await cloche.get('GET', `/sandboxes/${box}/execs/${id}`)).state;
			await until(async () => (await state()) === 'ended', `round ${round}: the end is known`);
		}
	});
});
