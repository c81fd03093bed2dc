// What the daemon weighs: by itself, with sandboxes that run, with readers of its events, after
// events that all of them were told, and when the readers are gone.
// Usage: CLOCHE_BUILD=build node tests/bench/weight.mjs [SANDBOXES] [READERS] [TASKS]
import fs from 'node:fs';
import http from 'node:http';

import { Daemon, sleep } from '../integration/lib.mjs';

const [sandboxes, readers, tasks] = [1000, 1000, 200].map((otherwise, i) => Number(process.argv[i + 2] ?? otherwise));
const GOAL_MIB = 64;

const daemon = await Daemon.start({ config: '[sandboxes.default]\npool = 2\n[server]\nlisten = "none"\n' });
process.once('SIGTERM', () => daemon.stop().finally(() => process.exit(143)));
const { pid } = daemon.daemonProcess();
const field = (file, name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/${file}`, 'utf8'))[1]) / 1024;
const most = { rss: 0 };
function tell(what) {
	const [rss, pss, heap] = [field('status', 'VmRSS'), field('smaps_rollup', 'Pss'), field('status', 'RssAnon')];
	most.rss = Math.max(most.rss, rss);
	console.log(`${what.padEnd(60)} Rss ${rss.toFixed(1)}  Pss ${pss.toFixed(1)}  anonymous ${heap.toFixed(1)} MiB`);
}

let taken = 0;
const listen = () =>
	new Promise((resolve, reject) => {
		const request = http.get({ socketPath: daemon.socket, path: '/api/v1/events', headers: { accept: 'text/event-stream' } }, (response) => {
			response.on('data', (part) => (taken += part.length));
			response.on('error', () => {});
			resolve(request);
		});
		request.on('error', reject);
	});
const all = async (count, workers, what) => {
	let begun = 0;
	const worker = async () => {
		while (begun++ < count) await what();
	};
	await Promise.all(Array.from({ length: workers }, worker));
};
/** Until nobody was told anything for a while. */
const settled = async () => {
	for (let before = -1; before !== taken; await sleep(2000)) before = taken;
};

try {
	tell('nothing yet');
	let refused = 0;
	await all(sandboxes, 4, async () => {
		// a loop device that another program took at that moment
		while ((await daemon.api('POST', '/sandboxes', {})).status >= 300) if (++refused > sandboxes) throw new Error('sandboxes cannot be made');
	});
	tell(`${sandboxes} sandboxes run${refused ? ` (${refused} made again)` : ''}`);
	const open = [];
	await all(readers, 8, async () => open.push(await listen()));
	await settled();
	tell(`and ${readers} read all events from the first`);
	await all(tasks, 4, () => daemon.get('POST', '/tasks/run', { instruction: 'true' }, { headers: { prefer: 'wait=60' } }));
	await settled();
	tell(`and ${tasks} tasks were run, told to all`);
	console.log(`most: ${most.rss.toFixed(1)} MiB, goal < ${GOAL_MIB}: ${most.rss < GOAL_MIB ? 'holds' : 'misses'}`);
	for (const request of open) request.destroy();
	await sleep(2000);
	tell('and nobody reads any more');
} finally {
	await daemon.stop();
}
