// GET /metrics: Prometheus text that tells what happened, and who may read it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { call, until, withDaemon } from './lib.mjs';

const POOL = 2;

/** {'name{label="x"}': value} and {name: type} of an exposition; fails on a line that is neither. */
function parse(text) {
	const samples = {};
	const types = {};
	for (const line of text.trimEnd().split('\n')) {
		const type = /^# TYPE (\w+) (gauge|counter|histogram)$/.exec(line);
		const sample = /^([a-z_]+(?:\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})?) (-?[\d.]+(?:e[+-]?\d+)?)$/.exec(line);
		if (type) types[type[1]] = type[2];
		else if (sample) {
			assert.ok(!(sample[1] in samples), `${sample[1]} twice`);
			samples[sample[1]] = Number(sample[2]);
		} else assert.match(line, /^# HELP \w+ \S/);
	}
	for (const name of Object.keys(samples)) {
		const family = name.replace(/\{.*/, '');
		assert.ok(types[family] ?? types[family.replace(/_(bucket|sum|count)$/, '')], `${name} has a type`);
	}
	return samples;
}

describe('metrics', () => {
	const cloche = withDaemon({ before, after }, { config: `[sandboxes.default]\npool = ${POOL}\n\n[sandboxes.plain]\npool = 0\n` });
	const scrape = async () => {
		const answer = await call(cloche.socket, 'GET', '/metrics');
		assert.equal(answer.status, 200);
		assert.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
		return parse(String(answer.bytes));
	};
	const filled = () => until(async () => (await scrape())['cloche_pool_ready{profile="default"}'] === POOL, 'the pool is full');

	test('the pool: hits, misses, refill', async () => {
		await filled();
		const first = await scrape();
		assert.equal(first['cloche_pool_wanted{profile="default"}'], POOL);
		assert.equal(first['cloche_pool_made_total{profile="default"}'], POOL);
		await cloche.create();
		await cloche.create({ diskBackend: 'tmpfs' });
		await filled();
		const next = await scrape();
		assert.equal(next['cloche_pool_hits_total{profile="default"}'], 1);
		assert.equal(next['cloche_pool_misses_total{profile="default"}'], 1);
		assert.equal(next['cloche_pool_made_total{profile="default"}'], POOL + 1);
		assert.equal(next['cloche_pool_make_seconds_count{profile="default"}'], POOL + 1);
		assert.equal(next['cloche_pool_failed_total{profile="default"}'], 0);
		assert.equal(next.cloche_claim_seconds_count, 1);
		assert.equal(next.cloche_launch_seconds_count, POOL + 2);
		assert.ok(next.cloche_launch_seconds_sum > 0);
	});

	test('sandboxes, commands, events, the store and HTTP', async () => {
		const before = await scrape();
		const { id } = await cloche.create({ profile: 'plain' });
		await cloche.exec(id, 'sleep 1000', { background: true });
		assert.equal((await cloche.api('GET', '/sandboxes/nobody')).status, 404);
		const next = await scrape();
		const grew = (name) => next[name] - before[name];
		assert.equal(grew('cloche_sandboxes{state="running"}'), 1);
		assert.equal(grew('cloche_execs_running'), 1);
		assert.equal(grew('cloche_execs_total'), 1);
		assert.equal(grew('cloche_events_total'), 3, 'created, running, started');
		assert.ok(grew('cloche_store_commits_total') >= 1);
		assert.ok(grew('cloche_store_commit_seconds_count') >= 1);
		assert.equal(grew('cloche_http_requests_total{class="4xx"}'), 1);
		assert.ok(grew('cloche_http_requests_total{class="2xx"}') >= 3);
		await cloche.get('POST', `/sandboxes/${id}/stop`, { graceMs: 100 });
		await cloche.get('DELETE', `/sandboxes/${id}`);
		const last = await scrape();
		assert.ok(last.cloche_reap_seconds_count >= before.cloche_reap_seconds_count + 2);
		assert.ok(last['cloche_state_seconds_total{state="stopping"}'] > 0);
		assert.ok(last['cloche_state_seconds_total{state="removing"}'] > 0);
		assert.equal(last.cloche_execs_running, before.cloche_execs_running);
	});

	test('nothing is stuck, and the process tells about itself', async () => {
		const now = await scrape();
		assert.equal(now.cloche_stuck, 0);
		assert.equal(now.cloche_leftovers, 0);
		assert.equal(now.cloche_reap_failures_total, 0);
		assert.ok(now.process_resident_memory_bytes > 1e6 && now.process_resident_memory_bytes < 200e6);
		assert.ok(now.process_open_fds > 5);
		assert.ok(Math.abs(now.process_start_time_seconds + now.cloche_uptime_seconds - Date.now() / 1000) < 60);
	});

	test('it takes GET alone and no parameters', async () => {
		assert.equal((await call(cloche.socket, 'POST', '/metrics', {})).status, 405);
		assert.equal((await call(cloche.socket, 'GET', '/metrics?x=1')).status, 400);
		assert.equal((await call(cloche.socket, 'GET', '/api/v1/metrics')).status, 404);
	});
});
