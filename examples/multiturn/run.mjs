#!/usr/bin/env node
// A report in many turns: one agent looks at a log, step by step, and each of its answers fits a schema.
//
//   node examples/multiturn/run.mjs [--build build] [--day urgent|quiet]      with a daemon and a scripted model of its own
//   node examples/multiturn/run.mjs --socket STATE/cloche.sock [--model NAME]    with yours
//
// discovery → research, once for each finding → actionability → priority, if somebody should act → presentation
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = path.dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
	options: {
		build: { type: 'string', default: 'build' },
		day: { type: 'string', default: 'urgent' },
		socket: { type: 'string' },
		model: { type: 'string' },
		agent: { type: 'string', default: 'cloche-agent' },
	},
});
const schema = (name) => JSON.parse(fs.readFileSync(path.join(here, 'schemas', `${name}.json`), 'utf8'));

function call(socketPath, method, route, body) {
	return new Promise((resolve, reject) => {
		const request = http.request({ socketPath, method, path: `/api/v1${route}`, headers: { 'Content-Type': 'application/json' } }, (answer) => {
			const parts = [];
			answer.on('data', (part) => parts.push(part));
			answer.on('end', () => {
				const text = Buffer.concat(parts).toString();
				const document = text ? JSON.parse(text) : {};
				if (answer.statusCode < 300) resolve(document);
				else reject(new Error(`${method} ${route}: ${document.detail ?? answer.statusCode}`));
			});
		});
		request.on('error', reject);
		request.end(body === undefined ? undefined : JSON.stringify(body));
	});
}

// --- the report ---

async function report(socket, model) {
	const steps = [];
	const take = ({ label, status, reason, detail, output, attempts, inputTokens, outputTokens }) => {
		if (status !== 'completed') throw new Error(`${label}: ${reason}: ${detail}`);
		steps.push({ label, attempts, inputTokens, outputTokens, output });
		console.error(`${label.padEnd(26)} ${attempts} asked  ${JSON.stringify(output).slice(0, 90)}`);
		return output;
	};
	const log = fs.readFileSync(path.join(here, 'app.log'), 'utf8');
	const { session, turn } = await call(socket, 'POST', '/sessions', {
		agent: options.agent,
		...(model ? { model } : {}),
		title: 'What happened last night?',
		context: { service: 'shop', log: 'app.log' },
		inputs: [{ path: 'app.log', content: options.day === 'quiet' ? log.replace(/^.*(ERROR|query).*\n/gm, '') : log }],
		prompt: 'Look at app.log in your working directory. What is worth a closer look?',
		outputSchema: schema('discovery'),
		stepName: 'discovery',
	});
	const ask = async (label, prompt, name) => take((await call(socket, 'POST', `/sessions/${session.id}/turns`, { label, prompt, outputSchema: schema(name) })).turn);
	let status = 'failed';
	try {
		const { findings } = take(turn);
		for (const finding of findings) await ask(`research ${finding.id}`, `Find the cause of "${finding.title}" (${finding.id}).`, 'research');
		const { actionable } = await ask('actionability', 'Should somebody act on what you found?', 'actionability');
		if (actionable) await ask('priority', 'How urgent is it?', 'priority');
		await ask('presentation', 'Write the report for the people who own this.', 'presentation');
		status = 'completed';
	} finally {
		await call(socket, 'POST', `/sessions/${session.id}/end`, status === 'failed' ? { status, error: 'a step did not succeed' } : { status });
	}
	return { session: session.id, steps };
}

// --- a daemon and a model of its own ---

async function withOwn(work) {
	const cloche = path.resolve(options.build, 'cloche');
	const state = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-example-'));
	const model = spawn(process.execPath, [path.join(here, '../../tests/scripted-model.mjs'), '--port', '0', '--script', path.join(here, 'model.json')], { stdio: ['ignore', 'pipe', 'inherit'] });
	let daemon;
	try {
		const [line] = await once(model.stdout, 'data');
		fs.chmodSync(state, 0o710);
		fs.writeFileSync(path.join(state, 'config.toml'), `[llm.providers.scripted]\nkind = "openai"\nbase_url = "http://127.0.0.1:${JSON.parse(line).listening}"\ndefault_model = "${options.day}"\n[sandboxes]\nblanks = 0\n`);
		daemon = spawn(cloche, ['--state', state, 'serve'], { stdio: ['ignore', 'ignore', 'pipe'] });
		let said = '';
		daemon.stderr.on('data', (part) => (said += part));
		const socket = path.join(state, 'cloche.sock');
		for (let i = 0; ; i++) {
			if (await call(socket, 'GET', '/health').catch(() => null)) break;
			if (daemon.exitCode !== null || i === 300) throw new Error(`the daemon does not serve:\n${said}`);
			await new Promise((done) => setTimeout(done, 100));
		}
		return await work(socket, options.model);
	} finally {
		model.kill();
		if (daemon && daemon.exitCode === null) {
			execFileSync(cloche, ['--state', state, 'stop']);
			if (daemon.exitCode === null) await once(daemon, 'exit');
		}
		fs.rmSync(state, { recursive: true, force: true });
	}
}

const result = options.socket ? await report(options.socket, options.model) : await withOwn(report);
console.log(JSON.stringify(result, null, '\t'));
