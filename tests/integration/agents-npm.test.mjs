// Agents as their makers publish them, at pinned versions (tests/agents), against the scripted model: each does a task of two steps in a
// sandbox without a network, and what the model counted is what the run counts.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';

import { Daemon, isAlive, isRoot, until } from './lib.mjs';
import { commandLine, descendants, processInfo } from './lib/host.mjs';
import { Model, providers } from './lib/model.mjs';
import { repo } from './lib/paths.mjs';

const KEY = `sk-real-${'Zq7'.repeat(9)}`;
const WAIT = { headers: { Prefer: 'wait=120' } };
const STEPS = [
	{ shell: 'echo scripted > proof.txt; cat proof.txt', usage: { in: 1000, out: 30, cached: 200 } },
	{ text: 'Done: saw {{result}}', usage: { in: 1200, out: 40, cached: 900 } },
];
// A server of MCP with one tool, on standard input and output.
const SERVER = `
const answer = (id, result) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
const ways = {
  initialize: (m) => ({ protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'plat', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'hello', description: 'says hello', inputSchema: { type: 'object', properties: {} } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'hello from the server' }] }),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => { const m = JSON.parse(line); if (m.id !== undefined) answer(m.id, ways[m.method]?.(m) ?? {}); });
`;
const SCRIPT = { default: STEPS, tools: [{ tool: 'hello', args: {} }, { text: 'The tool: {{result}}' }], child: [{ tool: 'runTask', args: { instruction: 'echo of a child', waitSeconds: 30 } }, { text: 'The child: {{result}}' }], slow: [{ shell: 'echo begun' }, { text: 'word '.repeat(400), delayMs: 300 }] };
const DIALECTS = { pi: 'chat', codex: 'responses', claude: 'anthropic', gemini: 'gemini' };
// What each makes of reasoningEffort "low"; undefined: it cannot be told.
const EFFORTS = { pi: 'low', codex: 'low', claude: 4096 };

const folderOf = (name) => path.join(repo, 'tests/agents', name);

/** The memory of a process, as its owner could read it: how many times the word is in it. */
function countInMemory(pid, word) {
	const needle = Buffer.from(word);
	const mem = fs.openSync(`/proc/${pid}/mem`, 'r');
	let found = 0;
	for (const line of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
		const [, from, to, file] = /^([0-9a-f]+)-([0-9a-f]+) rw\S* \S+ \S+ \S+\s*(.*)$/.exec(line) ?? [];
		if (!from || file?.startsWith('[v')) continue;
		const bytes = Buffer.alloc(1 << 20);
		for (let at = parseInt(from, 16); at < parseInt(to, 16); at += bytes.length - needle.length) {
			let got = 0;
			try {
				got = fs.readSync(mem, bytes, 0, Math.min(bytes.length, parseInt(to, 16) - at), at);
			} catch {
				break; // a hole
			}
			if (bytes.subarray(0, got).includes(needle)) found++;
		}
	}
	fs.closeSync(mem);
	return found;
}

describe('agents of npm', { skip: !isRoot && 'their layers are made by root' }, () => {
	let model, cloche;

	before(async () => {
		model = await Model.start({ script: SCRIPT, key: KEY });
		cloche = new Daemon({ env: { CLOCHE_TEST_MODEL_KEY: KEY } });
		cloche.configure(`[sandboxes.default]\npool = 0\n${providers(model.url, 'secret = "env:CLOCHE_TEST_MODEL_KEY"\ndefault_model = "default"\n')}`);
		await cloche.serve();
	});
	after(async () => {
		await cloche.discard();
		await model.stop();
	});

	const start = (body, options) => cloche.get('POST', '/tasks/run', { environment: 'none', ...body }, options);

	for (const [name, dialect] of Object.entries(DIALECTS))
		test(`${name} does a task of two steps without a network`, async () => {
			assert.ok(fs.existsSync(path.join(folderOf(name), 'node_modules/.bin')), 'it is not there: tools/deps test brings it');
			await cloche.ok(['agent', 'install', name, '--from', folderOf(name)], { ms: 120000 });
			const before = (await model.log()).length;
			const { task } = await start({ instruction: 'write the proof', agent: name, reasoningEffort: EFFORTS[name] && 'low' }, WAIT);
			assert.deepEqual([task.status, task.endReason], ['completed', 'finished'], JSON.stringify(task));
			assert.match(task.stdout, /Done: saw [^]*scripted/);
			const asked = (await model.log()).slice(before);
			assert.deepEqual([...new Set(asked.map((entry) => entry.kind))], [dialect]);
			// Some ask for more than the task needs; every token of these counts as well.
			const sum = (what) => asked.reduce((all, entry) => all + entry.usage[what], 0);
			assert.deepEqual([task.inputTokens, task.outputTokens, task.run.cachedTokens], [sum('in'), sum('out'), sum('cached')]);
			assert.deepEqual(asked.filter((entry) => entry.tools.length).map((entry) => [entry.step, entry.model]), [[0, 'default'], [1, 'default']]);
			assert.ok(asked.every((entry) => entry.key === KEY));
			const { reasoning_effort, reasoning, thinking } = asked[0].body;
			assert.equal(reasoning_effort ?? reasoning?.effort ?? thinking?.budget_tokens, EFFORTS[name]);
			const events = (await cloche.get('GET', `/tasks/${task.id}/events?limit=1000`)).items;
			const calls = events.filter((event) => event.kind === 'agent.update' && /^tool_call/.test(event.data.update.sessionUpdate));
			assert.ok(calls.some((event) => event.data.update.status === 'completed'), JSON.stringify(calls));
			assert.ok(!events.some((event) => event.kind === 'network.denied'), 'it tries to reach nothing else');
		});

	for (const name of ['codex', 'claude'])
		test(`${name} calls a tool of a server of MCP that the task brings`, async () => {
			const inputs = [{ path: 'server.js', content: SERVER }];
			const mcpServers = { plat: { command: 'node', args: ['/workspace/server.js'] } };
			const { task } = await start({ instruction: 'say hello', agent: name, model: 'tools', inputs, mcpServers }, WAIT);
			assert.equal(task.status, 'completed', JSON.stringify(task));
			assert.match(task.stdout, /The tool: [^]*hello from the server/);
		});

	for (const name of ['codex', 'claude'])
		test(`${name} calls runTask of the platform, with the rights of its run`, async () => {
			const mcpServers = { cloche: { command: 'cloche', args: ['mcp'] } };
			const { task } = await start({ instruction: 'hand it on', agent: name, model: 'child', mcpServers }, WAIT);
			assert.equal(task.status, 'completed', JSON.stringify(task));
			assert.match(task.stdout, /The child: [^]*of a child/);
			const child = (await cloche.get('GET', '/tasks?limit=100')).items.find((one) => one.instruction === 'echo of a child' && one.run.parent === task.run.id);
			assert.equal(child?.status, 'completed');
		});

	test('the key of the provider is in no memory inside, nor in the state directory or the log', async () => {
		const { task } = await start({ instruction: 'go', agent: 'cloche-agent', model: 'slow' });
		await until(async () => (await cloche.get('GET', `/tasks/${task.id}/events?limit=1000`)).items.some((event) => event.data.update?.sessionUpdate === 'agent_message_chunk'), 'it speaks');
		const own = fs.readlinkSync('/proc/self/ns/pid');
		const inside = descendants(cloche.child.pid).filter((info) => processInfo(info.pid) && fs.readlinkSync(`/proc/${info.pid}/ns/pid`) !== own);
		assert.ok(inside.some((info) => commandLine(info.pid)[0]?.endsWith('cloche-agent')), JSON.stringify(inside));
		const counts = inside.filter(isAlive).map((info) => countInMemory(info.pid, KEY));
		assert.deepEqual(counts, counts.map(() => 0));
		assert.ok(countInMemory(cloche.daemonProcess().pid, KEY) > 0, 'the one that has it is found');
		await cloche.get('POST', `/tasks/${task.id}/stop`, {}, WAIT);
		await until(async () => (await cloche.get('GET', '/sandboxes?limit=1000')).items.length === 0, 'its sandbox is gone');
		// Without what came from npm, and without the empty disks of sandboxes to come.
		const few = `find '${cloche.state}' -name layers -prune -o -type f -size -64M -print0 | xargs -0 grep -lasF '${KEY}' || true`;
		assert.equal(execFileSync('sh', ['-c', few]).toString(), '');
		assert.ok(!cloche.log.includes(KEY));
	});
});
