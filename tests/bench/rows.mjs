// The rows of the table. Each returns comparisons: {row, what, unit, ours, peer, theirs, goal}.
import { call, clocheBin, until } from '../integration/lib.mjs';
import { floor, latency, line, rate, summary } from './measure.mjs';

const TRUE = '/bin/true';
// After an answer: the sandbox is taken down and the pool fills up again. Not in anybody's sample.
const SETTLE_MS = 80;
const BURST = 200;

const READY = 8 + 2; // parked and blank ones
export const CONFIG = '[sandboxes]\nblanks = 2\n[sandboxes.default]\npool = 8\n';
// No profile has a pool: one that has none may be lent what another keeps ready.
export const COLD_CONFIG = '[sandboxes]\nblanks = 2\n[sandboxes.default]\npool = 0\n';
export const BURST_CONFIG = `[sandboxes.default]\npool = ${BURST}\n`;

/**
 * The whole life of a sandbox as one request on an open connection: POST /run where the API has it,
 * else the first message of a conversation of GET /run that is open already.
 */
async function request(daemon, name, settle) {
	const { paths } = await daemon.get('GET', '/openapi.json');
	const body = JSON.stringify({ sandbox: {}, exec: { argv: [TRUE] } });
	const hasPost = Object.entries(paths).some(([route, methods]) => route.endsWith('/run') && methods.post);
	return hasPost
		? line('post', name, settle, daemon.socket, '/api/v1/run', body)
		: line('run', name, settle, daemon.socket, body);
}

// Engines take half a second each and go on afterwards: every fourth round is enough.
const paceOf = (name) => (/^(docker|podman)/.test(name) ? `${SETTLE_MS}/4` : 0);

/** A number of /metrics, by the text before it. */
export async function metric(daemon, name) {
	const { bytes } = await call(daemon.socket, 'GET', '/metrics');
	const found = bytes.toString().split('\n').find((text) => text.startsWith(`${name} `));
	return found === undefined ? undefined : Number(found.slice(name.length));
}

/** Rows 1 to 3, in one interleaved run; cold: a daemon without any pool, for row 2. */
export async function starts(daemon, cold, peers, { rows, rounds }) {
	const plan = [];
	if (rows.includes(1)) plan.push(line('spawn', 'cloche run', SETTLE_MS, clocheBin(), 'run', '--', TRUE));
	if (rows.includes(2)) plan.push(await request(cold, 'request, no pool', SETTLE_MS));
	if (rows.includes(3)) plan.push(await request(daemon, 'request, pool', SETTLE_MS));
	if (rows.includes(3)) plan.push(line('spawn', 'posix_spawn', 0, TRUE));
	const judged = Object.keys(peers.starts).filter((name) => name.startsWith('bwrap') || rows.includes(1));
	for (const name of judged) plan.push(line('spawn', name, paceOf(name), ...peers.starts[name]));
	const results = await latency(plan, { rounds, env: daemon.env });
	const found = [];
	const compare = (row, what, mine, peer, goal) => {
		if (!rows.includes(row) || !results[peer]) return;
		found.push({ row, what, unit: 'ms', ours: results[mine], peer, theirs: results[peer], goal });
	};
	const GOALS = { 'bwrap, host': 0.6, 'bwrap, /usr': 0.6, 'crun, hardened': 0.15 };
	for (const name of judged) compare(1, '`cloche run -- /bin/true`, pool on', 'cloche run', name, { most: GOALS[name] });
	for (const name of judged.filter((one) => one.startsWith('bwrap')))
		compare(2, 'request on an open connection, no pool', 'request, no pool', name, { most: 0.5 });
	for (const name of judged.filter((one) => one.startsWith('bwrap')))
		compare(3, 'request on an open connection, warm pool', 'request, pool', name, { most: 0.35 });
	compare(3, 'request on an open connection, warm pool', 'request, pool', 'posix_spawn', { most: 3 });
	return found;
}

/** Row 4: a command in a sandbox that runs. */
export async function execs(daemon, peers, { rounds }) {
	const { id } = await daemon.create();
	const plan = [line('spawn', 'ours', 0, clocheBin(), 'sandbox', 'exec', id, '--', TRUE)];
	for (const [name, argv] of Object.entries(peers.execs)) plan.push(line('spawn', name, paceOf(name), ...argv));
	const results = await latency(plan, { rounds, env: daemon.env });
	const GOALS = { 'crun exec': 0.25, 'docker exec': 0.05 };
	await daemon.get('DELETE', `/sandboxes/${id}?force=true`);
	return Object.keys(peers.execs).map((name) => ({
		row: 4,
		what: '`cloche sandbox exec ID -- /bin/true`',
		unit: 'ms',
		ours: results.ours,
		peer: name,
		theirs: results[name],
		goal: { most: GOALS[name] },
	}));
}

const middle = (values) => summary(values).median;

/** The rate of all slices together with how long each one took; gone: what is taken down counts. */
const merge = (slices, key) => ({
	median: middle(slices.map((slice) => slice[key])),
	p99: summary(slices.flatMap((slice) => slice.each)).p99,
	failures: slices.reduce((sum, slice) => sum + slice.failures, 0),
});

const bwraps = (peers) => Object.entries(peers.starts).filter(([name]) => name.startsWith('bwrap'));

/** Row 5, sustained: in slices that take turns. */
export async function sustained(daemon, peers, { workers, seconds, slices }) {
	const gone = { folder: `${daemon.state}/sandboxes`, entries: READY };
	const plan = { ours: [await request(daemon, 'run', 0), gone] };
	for (const [name, argv] of bwraps(peers)) plan[name] = [line('spawn', name, 0, ...argv)];
	const found = Object.fromEntries(['walls', ...Object.keys(plan)].map((name) => [name, []]));
	for (let i = 0; i < slices; i++) {
		for (const [name, [candidate, where]] of Object.entries(plan)) {
			const options = { workers, seconds: seconds / slices, gone: where, env: daemon.env };
			found[name].push(await rate(candidate, options));
		}
		found.walls.push(await floor({ workers, seconds: seconds / slices }));
	}
	const compare = (name, what, ours, goal) => ({ row: 5, what, unit: '/s', ours, peer: name, theirs: merge(found[name], 'rate'), goal });
	return [
		...bwraps(peers).map(([name]) => compare(name, `sustained, ${workers} connections`, merge(found.ours, 'goneRate'), { least: 1.8 })),
		...bwraps(peers).map(([name]) => compare(name, 'the walls of a sandbox alone, without Cloche', merge(found.walls, 'rate'), {})),
	];
}

/** Row 5, a burst from a full pool. */
export async function burst(daemon, peers, { workers, times }) {
	const ours = [];
	const theirs = Object.fromEntries(bwraps(peers).map(([name]) => [name, []]));
	const candidate = await request(daemon, 'run', 0);
	const ready = 'cloche_pool_ready{profile="default"}';
	for (let i = 0; i < times; i++) {
		await until(async () => (await metric(daemon, ready)) === BURST, 'the pool is full', 60000);
		ours.push(await rate(candidate, { workers, count: BURST, env: daemon.env }));
		// The pool fills up behind the burst: nobody else is measured meanwhile.
		await until(async () => (await metric(daemon, ready)) === BURST, 'the pool is full', 60000);
		for (const [name, argv] of bwraps(peers))
			theirs[name].push(await rate(line('spawn', name, 0, ...argv), { workers, count: BURST, env: daemon.env }));
	}
	return Object.keys(theirs).map((name) => ({
		row: 5,
		what: `burst of ${BURST} from a full pool, ${workers} connections`,
		unit: '/s',
		ours: merge(ours, 'rate'),
		peer: name,
		theirs: merge(theirs[name], 'rate'),
		goal: { least: 6 },
	}));
}
