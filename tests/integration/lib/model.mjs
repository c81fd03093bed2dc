// The scripted model as a provider: a process of its own, as a real one would be.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { call } from './http.mjs';

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../scripted-model.mjs');

export class Model {
	/** script: steps, or steps by name; key: the only one it accepts. */
	static async start({ script, key } = {}) {
		const model = new Model();
		model.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-test-model-'));
		const args = [program, '--port', '0'];
		if (script) {
			const file = path.join(model.folder, 'script.json');
			fs.writeFileSync(file, JSON.stringify(script));
			args.push('--script', file);
		}
		if (key) args.push('--key', key);
		model.child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
		const [line] = await once(model.child.stdout, 'data');
		model.port = JSON.parse(line).listening;
		model.url = `http://127.0.0.1:${model.port}`;
		return model;
	}

	/** What it was asked. */
	async log() {
		return (await call({ host: '127.0.0.1', port: this.port }, 'GET', '/_log')).body;
	}

	async stop() {
		this.child.kill();
		if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
		fs.rmSync(this.folder, { recursive: true, force: true });
	}
}

/** One question in the words of each API. */
export const DIALECTS = {
	chat: {
		path: () => '/v1/chat/completions',
		body: (model, stream, prompt) => ({ model, stream, messages: [{ role: 'user', content: prompt }] }),
		text: (answer) => answer.choices[0].message.content,
		delta: (data) => data.choices?.[0]?.delta?.content ?? '',
		error: (answer) => answer.error.message,
	},
	responses: {
		path: () => '/v1/responses',
		body: (model, stream, prompt) => ({ model, stream, input: prompt }),
		text: (answer) => answer.output[0].content[0].text,
		delta: (data) => (data.type === 'response.output_text.delta' ? data.delta : ''),
		error: (answer) => answer.error?.message ?? answer.message,
	},
	messages: {
		path: () => '/v1/messages',
		body: (model, stream, prompt) => ({ model, stream, max_tokens: 100, messages: [{ role: 'user', content: prompt }] }),
		text: (answer) => answer.content[0].text,
		delta: (data) => data.delta?.text ?? '',
		error: (answer) => answer.error.message,
	},
	gemini: {
		path: (model, stream) => `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
		body: (model, stream, prompt) => ({ contents: [{ role: 'user', parts: [{ text: prompt }] }] }),
		text: (answer) => answer.candidates[0].content.parts[0].text,
		delta: (data) => data.candidates?.[0]?.content?.parts?.[0]?.text ?? '',
		error: (answer) => answer.error.message,
	},
};

/** The data of each event in a text. */
export const dataOf = (text) =>
	text
		.split('\n\n')
		.map((event) => event.split('\n').find((line) => line.startsWith('data: '))?.slice(6))
		.filter((data) => data && data !== '[DONE]')
		.map((data) => JSON.parse(data));

/** config.toml: the same place for every kind of API. */
export const providers = (url, more = '') =>
	['openai', 'anthropic', 'gemini']
		.map((kind) => `[llm.providers.${kind}]\nkind = "${kind}"\nbase_url = "${url}"\n${more}`)
		.join('\n');
