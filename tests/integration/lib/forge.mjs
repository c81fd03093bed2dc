// A forge on loopback: real git over HTTP (git http-backend) and a double of its API, in the shape
// of GitHub or of Gitea. It keeps what it was asked, so a test can say what was, and what was not.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';

import { until } from './http.mjs';

const BACKEND = path.join(execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim(), 'git-http-backend');

const AUTHOR = {
	GIT_AUTHOR_NAME: 'Somebody', GIT_AUTHOR_EMAIL: 'somebody@example.org',
	GIT_COMMITTER_NAME: 'Somebody', GIT_COMMITTER_EMAIL: 'somebody@example.org',
	GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null',
};

/** [forges.NAME] of config.toml for it. */
export const section = (name, forge, credential) => `[forges.${name}]
kind = "${forge.kind}"
base_url = "${forge.url}"
api_url = "${forge.url}/api/${forge.kind === 'gitea' ? 'v1' : 'v3'}"
${credential}
`;

/** config.toml with these sections. */
export const forgeConfig = (sections) => `[sandboxes.default]
pool = 0
[git]
author_name = "Robot"
author_email = "robot@example.org"
${sections}`;

/** The task, once it is over. */
export function taskOver(daemon, id) {
	return until(async () => {
		const { task } = await daemon.get('GET', `/tasks/${id}`);
		return ['completed', 'failed', 'cancelled'].includes(task.status) && task;
	}, 'the task is over', 60000);
}

/** Runs a task to its end; returns it. */
export async function runTask(daemon, body) {
	const { task } = await daemon.get('POST', '/tasks/run', body);
	return taskOver(daemon, task.id);
}

export const stepOf = (task, name) => task.run.steps.find((step) => step.step === name);

export class Forge {
	/** kind: github or gitea; token: what it accepts; app: {id, publicKey} of a GitHub App. */
	constructor({ kind = 'github', token, app } = {}) {
		this.kind = kind;
		this.token = token ?? `ghp_${crypto.randomBytes(18).toString('hex')}`;
		this.app = app;
		this.minted = new Map(); // token: {repositories, permissions, revoked}
		this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-test-forge-'));
		this.requests = [];
		this.pulls = [];
		this.labels = [];
		this.hold = {}; // name: a promise that requests of that name wait for
		this.redirect = null;
		this.refuse = undefined; // status of pull requests
	}

	static async start(options) {
		const forge = new Forge(options);
		forge.server = http.createServer((request, response) => {
			forge.answer(request, response).catch((error) => {
				if (!response.headersSent) response.writeHead(500, { 'content-type': 'application/json' });
				response.end(JSON.stringify({ message: String(error.stack) }));
			});
		});
		forge.server.listen(0, '127.0.0.1');
		await once(forge.server, 'listening');
		forge.url = `http://127.0.0.1:${forge.server.address().port}`;
		return forge;
	}

	async stop() {
		this.server.closeAllConnections();
		this.server.close();
		fs.rmSync(this.folder, { recursive: true, force: true });
	}

	git(repository, ...args) {
		return execFileSync('git', ['-C', path.join(this.folder, `${repository}.git`), ...args], {
			encoding: 'utf8', env: { ...process.env, ...AUTHOR }, maxBuffer: 64 << 20,
		});
	}

	/** A repository with one commit on main; files: {name: text, or {link: target}}. */
	make(repository, files = { 'README.md': '# hello\n' }) {
		const bare = path.join(this.folder, `${repository}.git`);
		const work = fs.mkdtempSync(path.join(this.folder, 'work-'));
		const run = (...args) => execFileSync('git', args, { cwd: work, env: { ...process.env, ...AUTHOR }, stdio: 'pipe' });
		fs.mkdirSync(bare, { recursive: true });
		execFileSync('git', ['init', '-q', '--bare', '-b', 'main', bare]);
		execFileSync('git', ['-C', bare, 'config', 'http.receivepack', 'true']);
		run('init', '-q', '-b', 'main');
		for (const [name, text] of Object.entries(files)) {
			fs.mkdirSync(path.dirname(path.join(work, name)), { recursive: true });
			if (typeof text.link === 'string') fs.symlinkSync(text.link, path.join(work, name));
			else fs.writeFileSync(path.join(work, name), text);
		}
		run('add', '-A');
		run('commit', '-q', '-m', 'first');
		run('push', '-q', bare, 'main');
		fs.rmSync(work, { recursive: true });
	}

	/** Lines of `git log`, newest first: "author email subject". */
	log(repository, branch) {
		return this.git(repository, 'log', '--format=%an %ae %s', branch).trim().split('\n');
	}

	branches(repository) {
		return this.git(repository, 'for-each-ref', '--format=%(refname:short)', 'refs/heads').trim().split('\n');
	}

	async answer(request, response) {
		const url = new URL(request.url, this.url);
		const auth = request.headers.authorization ?? '';
		this.requests.push({ method: request.method, path: request.url, auth });
		if (this.redirect && url.pathname.includes(this.redirect)) {
			response.writeHead(301, { location: `${this.url}/elsewhere${request.url}` });
			response.end();
			return;
		}
		if (url.pathname.startsWith('/api/')) await this.api(request, response, url, auth);
		else await this.smart(request, response, url, auth);
	}

	// --- git ---

	allows(token, repository, writes) {
		if (token === this.token && !this.app) return true;
		const minted = this.minted.get(token);
		return minted && !minted.revoked && minted.repositories.includes(repository.split('/')[1]) &&
			(!writes || minted.permissions.contents === 'write');
	}

	async smart(request, response, url, auth) {
		const [, repository] = /^\/([^/]+\/[^/]+)\.git\//.exec(url.pathname) ?? [];
		const [user, token] = Buffer.from(auth.replace(/^Basic /, ''), 'base64').toString().split(':');
		const writes = request.url.includes('git-receive-pack');
		if (!repository || !fs.existsSync(path.join(this.folder, `${repository}.git`))) {
			response.writeHead(404).end('no such repository');
			return;
		}
		if (user !== 'x-access-token' || !this.allows(token, repository, writes)) {
			response.writeHead(401, { 'www-authenticate': 'Basic realm="forge"' }).end();
			return;
		}
		await this.hold[writes ? 'push' : 'clone'];
		await this.backend(request, response, url);
	}

	async backend(request, response, url) {
		const child = spawn(BACKEND, [], {
			env: {
				PATH: process.env.PATH,
				GIT_PROJECT_ROOT: this.folder, GIT_HTTP_EXPORT_ALL: '1', REMOTE_USER: 'somebody',
				PATH_INFO: decodeURIComponent(url.pathname), QUERY_STRING: url.search.slice(1),
				REQUEST_METHOD: request.method, CONTENT_TYPE: request.headers['content-type'] ?? '',
				HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
				GIT_PROTOCOL: request.headers['git-protocol'] ?? '', REMOTE_ADDR: '127.0.0.1',
			},
			stdio: ['pipe', 'pipe', 'ignore'],
		});
		child.stdin.on('error', () => {});
		request.pipe(child.stdin);
		let head = Buffer.alloc(0);
		let isHead = true;
		for await (const part of child.stdout) {
			if (!isHead) {
				if (!response.write(part)) await once(response, 'drain');
				continue;
			}
			head = Buffer.concat([head, part]);
			const end = head.indexOf('\r\n\r\n');
			if (end < 0) continue;
			const headers = Object.fromEntries(head.subarray(0, end).toString().split('\r\n').map((line) => line.split(/:\s*/, 2)));
			response.writeHead(parseInt(headers.Status ?? '200', 10), headers);
			response.write(head.subarray(end + 4));
			isHead = false;
		}
		response.end();
	}

	// --- the API ---

	tokenOf(auth) {
		return auth.replace(/^(Bearer|token) /, '');
	}

	isApp(auth) {
		const [head, body, signature] = this.tokenOf(auth).split('.');
		if (!this.app || !signature) return false;
		const claims = JSON.parse(Buffer.from(body, 'base64url'));
		const now = Date.now() / 1000;
		assert.deepEqual(JSON.parse(Buffer.from(head, 'base64url')), { alg: 'RS256', typ: 'JWT' });
		return claims.iss === this.app.id && claims.iat <= now && claims.exp > now && claims.exp - claims.iat <= 600 &&
			crypto.verify('sha256', Buffer.from(`${head}.${body}`), this.app.publicKey, Buffer.from(signature, 'base64url'));
	}

	async api(request, response, url, auth) {
		const route = url.pathname.replace(/^\/api\/v\d/, '');
		const parts = [];
		for await (const part of request) parts.push(part);
		const body = parts.length ? JSON.parse(Buffer.concat(parts)) : null;
		const send = (status, json) => {
			response.writeHead(status, { 'content-type': 'application/json' });
			response.end(json === undefined ? '' : JSON.stringify(json));
		};
		const scheme = this.kind === 'gitea' ? 'token ' : 'Bearer ';
		const installation = /^\/app\/installations\/7\/access_tokens$/.test(route);
		if (route.endsWith('/installation') || installation || route === '/app') {
			if (!this.isApp(auth)) return send(401, { message: 'A JSON web token could not be decoded' });
			if (route === '/app') return send(200, { id: 1 });
			if (!installation) return send(200, { id: 7 });
			const token = `ghs_${crypto.randomBytes(18).toString('hex')}`;
			this.minted.set(token, { ...body, revoked: false });
			return send(201, { token, expires_at: new Date(Date.now() + 3600e3).toISOString() });
		}
		if (!auth.startsWith(scheme) || (this.tokenOf(auth) !== this.token && !this.minted.has(this.tokenOf(auth))))
			return send(401, { message: 'Bad credentials' });
		if (route === '/user') return send(200, { login: 'somebody' });
		if (route === '/installation/token' && request.method === 'DELETE') {
			this.minted.get(this.tokenOf(auth)).revoked = true;
			return send(204);
		}
		return this.repositoryApi(request, url, route, body, send);
	}

	async repositoryApi(request, url, route, body, send) {
		const [, repository, rest] = /^\/repos\/([^/]+\/[^/]+)(\/.*)$/.exec(route) ?? [];
		if (!repository || !fs.existsSync(path.join(this.folder, `${repository}.git`))) return send(404, { message: 'Not Found' });
		const open = this.pulls.filter((pull) => pull.repository === repository && pull.state === 'open');
		if (request.method === 'GET' && rest.startsWith('/pulls')) await this.hold.find;
		if (request.method === 'GET' && rest === '/pulls') {
			const [owner, head] = url.searchParams.get('head').split(/:(.*)/s);
			assert.equal(owner, repository.split('/')[0]);
			return send(200, open.filter((pull) => pull.head.ref === head && pull.base.ref === url.searchParams.get('base')));
		}
		if (request.method === 'GET' && rest.startsWith('/pulls/') && this.kind === 'gitea') {
			const [base, head] = rest.slice('/pulls/'.length).split('/').map(decodeURIComponent);
			const found = open.find((pull) => pull.head.ref === head && pull.base.ref === base);
			return found ? send(200, found) : send(404, { message: 'not found' });
		}
		if (request.method === 'POST' && rest === '/pulls') {
			if (this.refuse) return send(this.refuse, { message: 'Not allowed' });
			await this.hold.pull;
			return this.makePull(repository, body, send);
		}
		const [, number] = /^\/issues\/(\d+)\/labels$/.exec(rest) ?? [];
		if (request.method === 'POST' && number) {
			const names = this.kind === 'gitea' ? body.labels.map((id) => this.labels.find((one) => one.id === id).name) : body.labels;
			this.pulls[number - 1].labels.push(...names);
			return send(200, names);
		}
		if (rest === '/labels' && request.method === 'GET') return send(200, this.labels);
		if (rest === '/labels' && request.method === 'POST') {
			this.labels.push({ id: this.labels.length + 1, ...body });
			return send(201, this.labels.at(-1));
		}
		return send(404, { message: 'Not Found' });
	}

	makePull(repository, body, send) {
		const known = this.branches(repository);
		if (!known.includes(body.head) || !known.includes(body.base))
			return send(422, { message: 'Validation Failed', errors: [{ message: 'head or base is invalid' }] });
		if (this.pulls.some((pull) => pull.state === 'open' && pull.head.ref === body.head && pull.base.ref === body.base))
			return send(this.kind === 'gitea' ? 409 : 422, { message: 'Validation Failed', errors: [{ message: 'A pull request already exists' }] });
		if (this.git(repository, 'rev-list', '--count', `${body.base}..${body.head}`).trim() === '0')
			return send(422, { message: 'Validation Failed', errors: [{ message: `No commits between ${body.base} and ${body.head}` }] });
		const number = this.pulls.length + 1;
		const pull = {
			number, repository, state: 'open', title: body.title, body: body.body, draft: body.draft ?? false, labels: [],
			head: { ref: body.head }, base: { ref: body.base }, html_url: `${this.url}/${repository}/pull/${number}`,
		};
		this.pulls.push(pull);
		return send(201, pull);
	}
}
