// Events: gapless numbers, pages, streams that resume.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

describe('events', () => {
	const cloche = withDaemon({ before, after });
	const all = async (route = '/events') => {
		const items = [];
		let after = 0;
		for (;;) {
			const page = await cloche.get('GET', `${route}?limit=50&after=${after}`);
			if (!page.items.length) return items;
			items.push(...page.items);
			after = page.items.at(-1).seq;
		}
	};

	test('everything that changes is one, numbered without gaps', async () => {
		const sandbox = await cloche.create({ name: 'told' });
		await cloche.exec(sandbox.id, 'exit 3');
		await cloche.get('PATCH', `/sandboxes/${sandbox.id}`, { name: 'renamed', labels: { a: 'b' }, ttl: 3600000 });
		await cloche.get('POST', `/sandboxes/${sandbox.id}/stop`, { graceMs: 0 });
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}`);
		const events = await all();
		assert.deepEqual(events.map((one) => one.seq), events.map((_, i) => events[0].seq + i));
		assert.equal(events[0].seq, 1);
		const own = events.filter((one) => one.sandbox === sandbox.id);
		const kinds = own.map((one) => one.kind);
		for (const kind of ['sandbox.created', 'sandbox.running', 'exec.started', 'exec.exited', 'sandbox.renamed', 'sandbox.labeled', 'sandbox.extended', 'sandbox.stopping', 'sandbox.stopped', 'sandbox.removing', 'sandbox.removed'])
			assert.ok(kinds.includes(kind), `${kind} in ${kinds}`);
		assert.deepEqual(own.map((one) => one.sandboxSeq), own.map((_, i) => i + 1));
		for (const event of events) assert.ok(Date.parse(event.time) > 1.6e12);
	});

	test('the stream resumes after the last id it gave', async () => {
		const sandbox = await cloche.create();
		const seen = [];
		let last = 0;
		const take = async (count) => {
			const stream = await cloche.events('/events', { lastEventId: last });
			for (let i = 0; i < count; i++) {
				const event = await stream.next();
				seen.push(Number(event.id));
				assert.equal(JSON.parse(event.data).seq, Number(event.id));
				last = event.id;
			}
			stream.close();
		};
		await take(3);
		const work = (async () => {
			for (let i = 0; i < 10; i++) await cloche.exec(sandbox.id, 'true');
		})();
		await take(5);
		await work;
		await take(10);
		assert.deepEqual(seen, seen.map((_, i) => i + 1));
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('a sandbox has its own stream', async () => {
		const [one, two] = [await cloche.create(), await cloche.create()];
		const stream = await cloche.events(`/sandboxes/${one.id}/events`);
		await cloche.exec(two.id, 'true');
		await cloche.exec(one.id, 'true');
		for (;;) {
			const event = JSON.parse((await stream.next()).data);
			assert.equal(event.sandbox, one.id);
			if (event.kind === 'exec.exited') break;
		}
		stream.close();
		for (const sandbox of [one, two]) await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('many readers see the same', async () => {
		const sandbox = await cloche.create();
		const start = (await all()).at(-1).seq;
		const readers = await Promise.all(Array.from({ length: 20 }, () => cloche.events('/events', { lastEventId: start })));
		for (let i = 0; i < 5; i++) await cloche.exec(sandbox.id, 'true');
		for (const reader of readers) {
			for (let i = 1; i <= 10; i++) assert.equal(Number((await reader.next()).id), start + i);
			reader.close();
		}
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('who remembers more than there is learns it, and goes on from what there is', async () => {
		const sandbox = await cloche.create();
		const { task } = await cloche.get('POST', '/tasks', { instruction: 'true' });
		for (const [route, field, next] of [
			['/events', 'seq', () => cloche.exec(sandbox.id, 'true')],
			[`/sandboxes/${sandbox.id}/events`, 'sandboxSeq', () => cloche.exec(sandbox.id, 'true')],
			[`/tasks/${task.id}/events`, 'taskSeq', () => cloche.get('POST', `/tasks/${task.id}/runs`, {})],
		]) {
			const stream = await cloche.events(route, { lastEventId: 1e12 });
			const gap = await stream.next();
			const { kind, data } = JSON.parse(gap.data);
			assert.deepEqual([gap.event, kind, data.after, String(data.newest)], ['gap', 'gap', 1e12, gap.id], route);
			await next();
			assert.equal(JSON.parse((await stream.next()).data)[field], data.newest + 1, route);
			stream.close();
			const again = await cloche.events(route, { lastEventId: data.newest });
			assert.equal(JSON.parse((await again.next()).data)[field], data.newest + 1, `${route}: nothing is missing`);
			again.close();
		}
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
	});

	test('the command line prints them, and follows', async () => {
		const out = await cloche.ok(['-o', 'jsonl', 'events']);
		const events = out.trim().split('\n').map((line) => JSON.parse(line));
		assert.equal(events[0].seq, 1);
		assert.ok(events.length > 10);
	});
});
