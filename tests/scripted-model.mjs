#!/usr/bin/env node
// Scripted model server: replays a fixed script over four model APIs, on 127.0.0.1 only.
//
//   node tests/scripted-model.mjs [--port 8399] [--script FILE.json] [--key SECRET] [--log FILE.ndjson]
//
// APIs     POST /v1/chat/completions   POST /v1/responses   POST /v1/messages (+ /count_tokens)
//          POST /v1beta/models/M:generateContent and :streamGenerateContent      GET /v1/models
// Control  GET /_log  every request seen so far       POST /_reset  forget log and error counts
// --port 0 picks a free port; the first stdout line is {"listening":PORT}.  --key makes any
// request without that exact provider key fail with 401 (proves that a gateway injected it).
//
// Script: {"NAME":[step,...],...} or a bare [step,...] (= "default"). The script used is the one
// whose NAME is the request's model id, else the one named by "script=NAME" in a user message,
// else "default". The step is the number of assistant turns already in the request, so the
// server keeps no conversation state and side requests (titles, summaries) do not advance it.
//   {"text":"..."}                   final text; {{prompt}} and {{result}} stand for the latest
//                                    user text and the latest tool result
//   {"json":{...}}                   final text holding that JSON
//   {"shell":"echo hi > a"}          call whatever shell tool the agent offers, in its own schema
//   {"tool":"runTask","args":{...}}  call the offered tool of that name, or *_NAME (MCP prefixes)
//   {"error":429,"times":2}          fail that often (default 1), then go on with the next step
// Any step may add "usage":{"in":N,"out":N,"cached":N} ("in" includes "cached"), "delayMs":N
// (pause between stream chunks), "cut":true (drop the connection half way through) and "stamps":true
// (before each chunk a comment with the nanoseconds of the monotonic clock, for measuring).
import http from 'node:http';
import fs from 'node:fs';
import { parseArgs } from 'node:util';

const { values: opt } = parseArgs({ options: {
	port: { type: 'string', default: '8399' }, script: { type: 'string' },
	key: { type: 'string' }, log: { type: 'string' } } });
const loaded = opt.script ? JSON.parse(fs.readFileSync(opt.script, 'utf8'))
	: [{ shell: 'echo scripted > proof.txt' }, { text: 'Done: wrote proof.txt' }];
const scripts = Array.isArray(loaded) ? { default: loaded } : loaded;
const SHELL = /(^|[^a-z0-9])(bash|shell|shell_command|exec_command|run_shell_command|local_shell|execute_command|terminal)$/i;
const boot = Date.now().toString(36);       // ids never repeat, not even after a restart: agents
let log = [], failures = {}, serial = 0;    // drop a tool call whose id is already in a resumed session

const sleep = ms => new Promise(done => setTimeout(done, ms));
const pieces = s => s.match(/[\s\S]{1,24}/g) ?? [''];
const plain = c => typeof c === 'string' ? c
	: Array.isArray(c) ? c.map(p => typeof p === 'string' ? p : p?.text ?? '').filter(Boolean).join('\n')
	: c == null ? '' : JSON.stringify(c);

// Every dialect: read() reduces a request to {turns, users, results, tools}; whole() is the
// non-streamed answer; stream() is the list of [event name or null, data] to send; fail() an error.
const dialects = {
	chat: {
		read: b => ({
			turns: b.messages.filter(m => m.role === 'assistant').length,
			users: b.messages.filter(m => m.role === 'user').map(m => plain(m.content)),
			results: b.messages.filter(m => m.role === 'tool').map(m => plain(m.content)),
			tools: (b.tools ?? []).map(t => ({ name: t.function?.name, schema: t.function?.parameters })) }),
		usage: u => ({ prompt_tokens: u.in, completion_tokens: u.out, total_tokens: u.in + u.out,
			prompt_tokens_details: { cached_tokens: u.cached } }),
		whole(t) {
			const message = t.call
				? { role: 'assistant', content: null, tool_calls: [{ id: t.call.id, type: 'function',
						function: { name: t.call.name, arguments: t.call.json } }] }
				: { role: 'assistant', content: t.text };
			return { id: t.id, object: 'chat.completion', created: t.now, model: t.model, usage: this.usage(t.usage),
				choices: [{ index: 0, message, finish_reason: t.call ? 'tool_calls' : 'stop' }] };
		},
		stream(t, b) {
			const chunk = (delta, finish_reason = null) => [null, { id: t.id, object: 'chat.completion.chunk',
				created: t.now, model: t.model, choices: [{ index: 0, delta, finish_reason }] }];
			const out = [chunk({ role: 'assistant', content: t.call ? null : '' })];
			if (t.call) {
				out.push(chunk({ tool_calls: [{ index: 0, id: t.call.id, type: 'function',
					function: { name: t.call.name, arguments: '' } }] }));
				for (const p of pieces(t.call.json)) out.push(chunk({ tool_calls: [{ index: 0, function: { arguments: p } }] }));
			} else for (const p of pieces(t.text)) out.push(chunk({ content: p }));
			out.push(chunk({}, t.call ? 'tool_calls' : 'stop'));
			// As the real API does: a usage chunk only when the caller asked for one.
			if (b.stream_options?.include_usage) out.push([null, { ...chunk({})[1], choices: [], usage: this.usage(t.usage) }]);
			return [...out, [null, '[DONE]']];
		},
		fail: (status, message) => ({ error: { message, type: status === 401 ? 'invalid_request_error' : 'server_error', code: String(status) } }),
	},

	responses: {
		read(b) {
			const items = typeof b.input === 'string' ? [{ role: 'user', content: b.input }] : b.input;
			const flat = (b.tools ?? []).flatMap(t => t.type === 'namespace'
				? t.tools.map(x => ({ ...x, namespace: t.name })) : [t]);
			return {
				turns: items.filter(i => /^(function|custom_tool|local_shell)_call$/.test(i.type) || i.role === 'assistant').length,
				users: items.filter(i => i.role === 'user').map(i => plain(i.content)),
				results: items.filter(i => /_call_output$/.test(i.type)).map(i => plain(i.output)),
				tools: flat.map(t => ({ name: t.name ?? t.type, schema: t.parameters, kind: t.type, namespace: t.namespace })) };
		},
		usage: u => ({ input_tokens: u.in, input_tokens_details: { cached_tokens: u.cached }, output_tokens: u.out,
			output_tokens_details: { reasoning_tokens: 0 }, total_tokens: u.in + u.out }),
		item(t, status) {
			if (!t.call) return { type: 'message', id: `msg_${t.id}`, role: 'assistant', status,
				content: status === 'completed' ? [{ type: 'output_text', text: t.text, annotations: [] }] : [] };
			const base = { id: `fc_${t.id}`, call_id: t.call.id, status, name: t.call.name, ...(t.call.namespace && { namespace: t.call.namespace }) };
			return t.call.kind === 'custom'
				? { ...base, type: 'custom_tool_call', input: status === 'completed' ? t.call.args.input : '' }
				: { ...base, type: 'function_call', arguments: status === 'completed' ? t.call.json : '' };
		},
		whole(t, status = 'completed') {
			const done = status === 'completed';
			return { id: `resp_${t.id}`, object: 'response', created_at: t.now, status, model: t.model, error: null,
				output: done ? [this.item(t, status)] : [], usage: done ? this.usage(t.usage) : null };
		},
		stream(t) {
			const out = [], item_id = this.item(t, 'completed').id, at = { item_id, output_index: 0 };
			const add = (type, data) => out.push([type, { type, sequence_number: out.length, ...data }]);
			const body = t.call ? (t.call.kind === 'custom' ? t.call.args.input : t.call.json) : t.text;
			add('response.created', { response: this.whole(t, 'in_progress') });
			add('response.output_item.added', { output_index: 0, item: this.item(t, 'in_progress') });
			if (t.call) {
				const kind = t.call.kind === 'custom' ? 'custom_tool_call_input' : 'function_call_arguments';
				for (const p of pieces(body)) add(`response.${kind}.delta`, { ...at, delta: p });
				add(`response.${kind}.done`, { ...at, [t.call.kind === 'custom' ? 'input' : 'arguments']: body });
			} else {
				const part = text => ({ ...at, content_index: 0, part: { type: 'output_text', text, annotations: [] } });
				add('response.content_part.added', part(''));
				for (const p of pieces(body)) add('response.output_text.delta', { ...at, content_index: 0, delta: p });
				add('response.output_text.done', { ...at, content_index: 0, text: body });
				add('response.content_part.done', part(body));
			}
			add('response.output_item.done', { output_index: 0, item: this.item(t, 'completed') });
			add('response.completed', { response: this.whole(t) });
			return out;
		},
		fail: (status, message) => ({ error: { message, type: 'server_error', code: String(status) } }),
	},

	anthropic: {
		read: b => ({
			turns: b.messages.filter(m => m.role === 'assistant').length,
			users: b.messages.filter(m => m.role === 'user').map(m => plain(m.content)).filter(Boolean),
			results: b.messages.flatMap(m => Array.isArray(m.content) ? m.content : [])
				.filter(p => p.type === 'tool_result').map(p => plain(p.content)),
			tools: (b.tools ?? []).map(t => ({ name: t.name, schema: t.input_schema })) }),
		usage: u => ({ input_tokens: u.in - u.cached, cache_creation_input_tokens: 0, cache_read_input_tokens: u.cached, output_tokens: u.out }),
		whole: t => ({ id: `msg_${t.id}`, type: 'message', role: 'assistant', model: t.model, stop_sequence: null,
			content: [t.call ? { type: 'tool_use', id: t.call.id, name: t.call.name, input: t.call.args } : { type: 'text', text: t.text }],
			stop_reason: t.call ? 'tool_use' : 'end_turn', usage: dialects.anthropic.usage(t.usage) }),
		stream(t) {
			const full = this.whole(t), first = { ...full.usage, output_tokens: 1 };
			const ev = (type, data) => [type, { type, ...data }];
			const block = t.call ? { ...full.content[0], input: {} } : { type: 'text', text: '' };
			return [ev('message_start', { message: { ...full, content: [], stop_reason: null, usage: first } }),
				ev('content_block_start', { index: 0, content_block: block }), ev('ping', {}),
				...pieces(t.call ? t.call.json : t.text).map(p => ev('content_block_delta', { index: 0,
					delta: t.call ? { type: 'input_json_delta', partial_json: p } : { type: 'text_delta', text: p } })),
				ev('content_block_stop', { index: 0 }),
				ev('message_delta', { delta: { stop_reason: full.stop_reason, stop_sequence: null }, usage: full.usage }),
				ev('message_stop', {})];
		},
		fail: (status, message) => ({ type: 'error', error: { message, type:
			{ 401: 'authentication_error', 429: 'rate_limit_error', 529: 'overloaded_error' }[status] ?? 'api_error' } }),
	},

	gemini: {
		read: b => ({
			turns: b.contents.filter(c => c.role === 'model').length,
			users: b.contents.filter(c => c.role !== 'model').map(c => plain(c.parts)).filter(Boolean),
			results: b.contents.flatMap(c => c.parts).filter(p => p.functionResponse).map(p => plain(p.functionResponse.response)),
			tools: (b.tools ?? []).flatMap(t => t.functionDeclarations ?? [])
				.map(f => ({ name: f.name, schema: f.parametersJsonSchema ?? f.parameters })) }),
		whole: t => ({ responseId: t.id, modelVersion: t.model,
			candidates: [{ index: 0, finishReason: 'STOP', content: { role: 'model',
				parts: [t.call ? { functionCall: { name: t.call.name, args: t.call.args } } : { text: t.text }] } }],
			usageMetadata: { promptTokenCount: t.usage.in, candidatesTokenCount: t.usage.out,
				cachedContentTokenCount: t.usage.cached, totalTokenCount: t.usage.in + t.usage.out } }),
		stream(t) {                                             // usage and finishReason on the last chunk only
			const texts = t.call ? [] : pieces(t.text), last = this.whole({ ...t, text: texts.pop() });
			return [...texts.map(text => [null, { responseId: t.id, modelVersion: t.model,
				candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] } }] }]), [null, last]];
		},
		fail: (status, message) => ({ error: { code: status, message, status: status === 401 ? 'UNAUTHENTICATED' : 'UNAVAILABLE' } }),
	},
};

// Arguments for the agent's own shell tool: put the command where its schema wants it.
function shellArgs(tool, command) {
	if (tool.kind === 'custom') return { input: command };
	const props = tool.schema?.properties ?? {}, args = {};
	const slot = ['command', 'cmd', 'script', 'input'].find(k => props[k]) ?? 'command';
	for (const k of tool.schema?.required ?? []) if (props[k]?.type === 'string') args[k] = 'scripted step';
	return { ...args, [slot]: props[slot]?.type === 'array' ? ['bash', '-c', command] : command };
}

function plan(seen, model) {
	const named = seen.users.map(u => /\bscript=([\w.-]+)/.exec(u)?.[1]).findLast(n => n && scripts[n]);
	const name = scripts[model] ? model : named ?? 'default', steps = scripts[name] ?? [];
	let index = 0, left = seen.turns;                       // error steps are not assistant turns
	for (; index < steps.length; index++) {
		if (steps[index].error) {
			if (left > 0) continue;
			const id = `${name}/${index}`;
			if ((failures[id] ?? 0) >= (steps[index].times ?? 1)) continue;
			failures[id] = (failures[id] ?? 0) + 1;
			break;
		}
		if (left-- === 0) break;
	}
	const step = steps[index] ?? { text: 'End of script.' };
	const fill = s => s.replace(/\{\{prompt\}\}/g, () => seen.users.at(-1) ?? '').replace(/\{\{result\}\}/g, () => seen.results.at(-1) ?? '');
	const tool = step.shell ? seen.tools.find(t => SHELL.test(t.name ?? ''))
		: step.tool ? seen.tools.find(t => t.name === step.tool) ?? seen.tools.find(t => t.name?.endsWith(step.tool) && !/[a-z0-9]/i.test(t.name.at(-step.tool.length - 1))) : null;
	const args = tool && (step.shell ? shellArgs(tool, fill(step.shell)) : step.args ?? {}), wanted = step.shell ? 'shell' : step.tool;
	return { name, index, step, error: step.error,
		usage: { in: 100, out: 20, cached: 0, ...step.usage },
		text: wanted ? `No ${wanted} tool was offered.` : step.json ? JSON.stringify(step.json) : fill(step.text ?? ''),
		call: tool && { id: `call_${boot}${++serial}`, name: tool.name, namespace: tool.namespace, kind: tool.kind, args, json: JSON.stringify(args) } };
}

const server = http.createServer(async (req, res) => {
	const url = new URL(req.url, 'http://127.0.0.1'), path = url.pathname.replace(/\/{2,}/g, '/');
	const json = (status, data) => { res.writeHead(status, { 'content-type': 'application/json' }); res.end(JSON.stringify(data)); };
	const parts = []; for await (const p of req) parts.push(p);
	if (path === '/_log') return json(200, log);
	if (path === '/_reset') { log = []; failures = {}; return json(200, {}); }
	const native = /\/models\/([^/:]+):(stream)?[gG]enerateContent$/.exec(path);
	const kind = native ? 'gemini' : path.endsWith('/chat/completions') ? 'chat'
		: path.endsWith('/responses') ? 'responses' : path.endsWith('/messages') ? 'anthropic' : null;
	const key = req.headers.authorization?.replace(/^Bearer /i, '') ?? req.headers['x-api-key'] ?? req.headers['x-goog-api-key'] ?? url.searchParams.get('key');
	const entry = { at: new Date().toISOString(), method: req.method, path, key, agent: req.headers['user-agent'] };
	const note = more => { Object.assign(entry, more); log.push(entry); if (opt.log) fs.appendFileSync(opt.log, JSON.stringify(entry) + '\n'); };
	let body;
	try { body = parts.length ? JSON.parse(Buffer.concat(parts)) : {}; } catch { note({ status: 400 }); return json(400, { error: { message: 'not JSON' } }); }
	if (opt.key && key !== opt.key) { note({ status: 401 }); return json(401, (dialects[kind] ?? dialects.chat).fail(401, 'wrong provider key')); }
	if (path.endsWith('/models')) { note({ status: 200 }); return json(200, { object: 'list', data: Object.keys(scripts).map(id => ({ id, object: 'model' })) }); }
	if (/count_?[tT]okens$/.test(path)) { note({ status: 200 }); return json(200, { input_tokens: 100, totalTokens: 100 }); }
	if (!kind || req.method !== 'POST') { note({ status: 404 }); return json(404, { error: { message: `no such endpoint: ${path}` } }); }

	const d = dialects[kind], model = native?.[1] ?? body.model, streaming = native ? !!native[2] : !!body.stream;
	let seen;
	try { seen = d.read(body); } catch (e) { note({ status: 400, body }); return json(400, d.fail(400, String(e))); }
	const t = { id: `${boot}${++serial}`, now: Math.floor(Date.now() / 1000), model, ...plan(seen, model) };
	note({ status: t.error ?? 200, kind, model, streaming, script: t.name, step: t.index, call: t.call?.name, text: t.call ? undefined : t.text,
		usage: t.usage, tools: seen.tools.map(x => x.name), body });
	if (t.error) { if (t.error === 429) res.setHeader('retry-after', '0'); return json(t.error, d.fail(t.error, 'scripted failure')); }
	if (!streaming) { await sleep(t.step.delayMs ?? 0); return t.step.cut ? res.destroy() : json(200, d.whole(t)); }
	res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
	const events = d.stream(t, body);
	for (const [i, [event, data]] of events.entries()) {
		if (res.destroyed || (t.step.cut && i >= events.length / 2)) return res.destroy();
		const stamp = t.step.stamps ? `: ${process.hrtime.bigint()}\n` : '';
		res.write(`${stamp}${event ? `event: ${event}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
		if (t.step.delayMs) await sleep(t.step.delayMs);
	}
	res.end();
});
server.listen(Number(opt.port), '127.0.0.1', () => console.log(JSON.stringify({ listening: server.address().port })));
