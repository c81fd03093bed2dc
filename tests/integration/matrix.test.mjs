// Every route of the daemon × every kind of caller. The table below says who may use what; it is
// written by hand on purpose: a route whose scope changes, or that is new, has to be looked at here.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

const ROUTES = `
GET /health: public
GET /openapi.json: public
GET /version: known
GET /me: known
GET /scopes: known
GET /capabilities: known
GET /profiles: profiles:read
GET /profiles/{profile}: profiles:read
GET /doctor: obs:read
GET //metrics: obs:read
POST //mcp: known
GET //mcp: known
DELETE //mcp: known
GET //.well-known/oauth-protected-resource: public
GET //.well-known/oauth-protected-resource/mcp: public
GET /events: obs:read
POST /run: sandboxes:write
GET /run: sandboxes:write
POST /sandboxes: sandboxes:write
GET /sandboxes: sandboxes:read
GET /sandboxes/{sandbox}: sandboxes:read
PATCH /sandboxes/{sandbox}: sandboxes:write
DELETE /sandboxes/{sandbox}: sandboxes:write
POST /sandboxes/{sandbox}/stop: sandboxes:write
POST /sandboxes/{sandbox}/start: sandboxes:write
GET /sandboxes/{sandbox}/wait: sandboxes:read
GET /sandboxes/{sandbox}/logs: logs:read
GET /sandboxes/{sandbox}/events: obs:read
GET /sandboxes/{sandbox}/ports/{port}: sandboxes:write
GET /sandboxes/{sandbox}/connect: sessions:write
POST /sandboxes/{sandbox}/execs: sandboxes:write
GET /sandboxes/{sandbox}/exec: sandboxes:write
GET /sandboxes/{sandbox}/execs: sandboxes:read
GET /sandboxes/{sandbox}/execs/{exec}: sandboxes:read
DELETE /sandboxes/{sandbox}/execs/{exec}: sandboxes:write
POST /sandboxes/{sandbox}/execs/{exec}/signal: sandboxes:write
POST /sandboxes/{sandbox}/execs/{exec}/kill: sandboxes:write
POST /sandboxes/{sandbox}/execs/{exec}/resize: sandboxes:write
POST /sandboxes/{sandbox}/execs/{exec}/stdin: sandboxes:write
GET /sandboxes/{sandbox}/execs/{exec}/output: logs:read
GET /sandboxes/{sandbox}/execs/{exec}/attach: logs:read
GET /sandboxes/{sandbox}/files: sandboxes:read
PUT /sandboxes/{sandbox}/files: sandboxes:write
DELETE /sandboxes/{sandbox}/files: sandboxes:write
GET /sandboxes/{sandbox}/files/list: sandboxes:read
GET /sandboxes/{sandbox}/files/stat: sandboxes:read
POST /sandboxes/{sandbox}/files/mkdir: sandboxes:write
POST /sandboxes/{sandbox}/files/rename: sandboxes:write
GET /sandboxes/{sandbox}/files/watch: sandboxes:read
GET /sandboxes/{sandbox}/archive: sandboxes:read
PUT /sandboxes/{sandbox}/archive: sandboxes:write
GET /sandboxes/{sandbox}/network: sandboxes:read
PUT /sandboxes/{sandbox}/network: sandboxes:write
POST /sandboxes/{sandbox}/network/learn: environments:write
GET /images: images:read
POST /images: images:write
GET /images/{image}: images:read
DELETE /images/{image}: images:write
GET /environments: environments:read
POST /environments: environments:write
GET /environments/{environment}: environments:read
PATCH /environments/{environment}: environments:write
DELETE /environments/{environment}: environments:write
PUT /environments/{environment}/variables/{variable}: environments:write
DELETE /environments/{environment}/variables/{variable}: environments:write
GET /skills: agents:read
POST /skills: agents:write
GET /skills/{skill}: agents:read
DELETE /skills/{skill}: agents:write
GET /commands: known
GET /commands/{noun}/{verb}: known
POST /commands/{noun}/{verb}: known
POST /commands/reload: profiles:write operator
GET /approvals: approvals:read
POST /approvals/{approval}: approvals:write
POST /tasks/run: tasks:write
POST /tasks: tasks:write
GET /tasks: tasks:read
GET /tasks/{task}: tasks:read
POST /tasks/{task}/runs: tasks:write
GET /tasks/{task}/runs: tasks:read
GET /tasks/{task}/runs/{run}: tasks:read
POST /tasks/{task}/stop: tasks:write
GET /tasks/{task}/events: tasks:read
GET /tasks/{task}/logs: tasks:read
GET /tasks/{task}/output: tasks:read
PUT /tasks/{task}/output: tasks:write
GET /tasks/{task}/artifacts: tasks:read
POST /tasks/{task}/artifacts: tasks:write
GET /tasks/{task}/artifacts/{artifact}: tasks:read
DELETE /tasks/{task}/artifacts/{artifact}: tasks:write
POST /sessions: sessions:write
GET /sessions: sessions:read
GET /sessions/{session}: sessions:read
POST /sessions/{session}/turns: sessions:write
GET /sessions/{session}/turns: sessions:read
GET /sessions/{session}/turns/{turn}: sessions:read
POST /sessions/{session}/turns/{turn}/cancel: sessions:write
POST /sessions/{session}/end: sessions:write
GET /sessions/{session}/events: sessions:read
GET /usage: obs:read
GET /budgets: budgets:read
PUT /budgets/{kind}/{subject}: budgets:write
DELETE /budgets/{kind}/{subject}: budgets:write
POST /webhooks: webhooks:write
GET /webhooks: webhooks:read
GET /webhooks/{webhook}: webhooks:read
DELETE /webhooks/{webhook}: webhooks:write
POST /webhooks/{webhook}/rotate: webhooks:write
POST /webhooks/{webhook}/test: webhooks:write
GET /webhooks/{webhook}/deliveries: webhooks:read
POST /webhooks/{webhook}/deliveries/{delivery}/redeliver: webhooks:write
POST /llm: llm_gateway:read
GET /forges: repositories:read
POST /forges/{forge}/test: secrets:write
PUT /forges/{forge}/secret: secrets:write operator
GET /providers: secrets:read
POST /providers: secrets:write
GET /providers/{provider}: secrets:read
PATCH /providers/{provider}: secrets:write
DELETE /providers/{provider}: secrets:write
POST /providers/{provider}/test: secrets:write
GET /services: secrets:read
POST /services: secrets:write
GET /services/{service}: secrets:read
PATCH /services/{service}: secrets:write
DELETE /services/{service}: secrets:write
POST /services/{service}/test: secrets:write
GET /keys: keys:read
POST /keys: keys:write
GET /keys/{key}: keys:read
DELETE /keys/{key}: keys:write
POST /keys/{key}/rotate: keys:write
GET /teams: teams:read
POST /teams: teams:write operator
GET /teams/{team}: teams:read
PATCH /teams/{team}: teams:write
GET /teams/{team}/members: teams:read
PUT /teams/{team}/members/{member}: teams:write
DELETE /teams/{team}/members/{member}: teams:write
GET /trusted-keys: agents:read
POST /trusted-keys: agents:write
DELETE /trusted-keys/{trusted}: agents:write
GET /agents: agents:read
POST /agents/verify: agents:read
GET /audit: audit:read
GET /audit/verify: audit:read operator
GET /audit/export: audit:read operator
`;

// Bodies that fit, for routes whose object is to be asked for.
const BODIES = {
	SandboxChangeRequest: { labels: {} },
	StopRequest: {},
	ExecRequest: { argv: ['true'] },
	SignalRequest: { signal: 'TERM' },
	ResizeRequest: { rows: 2, cols: 2 },
	MkdirRequest: { path: '/workspace/x' },
	RenameRequest: { from: '/workspace/a', to: '/workspace/b' },
	NetworkRequest: { network: 'none' },
	LearnRequest: { name: 'learned' },
	EnvironmentChangeRequest: { mode: 'enforce' },
	VariableRequest: { value: 'x' },
	RunStartRequest: {},
	TaskStopRequest: {},
	TurnRequest: { prompt: 'x' },
	SessionEndRequest: {},
	TaskOutputRequest: { output: {} },
	BudgetRequest: { amount: 1 },
};

const routes = ROUTES.trim().split('\n').map((line) => {
	const [, method, route, scope, operator] = /^(\w+) (\S+): (\S+)( operator)?$/.exec(line);
	return { method, route, scope, operator: Boolean(operator), name: `${method} ${route}` };
});

const reads = ['sandboxes', 'logs', 'images', 'profiles', 'environments', 'workspaces', 'tasks', 'sessions', 'agents', 'approvals', 'secrets', 'webhooks', 'obs', 'keys', 'teams', 'budgets', 'repositories'].map((object) => `${object}:read`);
const viewer = [...reads, 'keys:write'];
const member = [...viewer, 'llm_gateway:read', ...['sandboxes', 'images', 'environments', 'workspaces', 'tasks', 'sessions', 'approvals', 'secrets', 'webhooks', 'repositories'].map((object) => `${object}:write`)];
const admin = [...member, 'audit:read', 'profiles:write', 'agents:write', 'teams:write', 'budgets:write'];
const ROLES = {
	viewer: { scopes: viewer },
	member: { scopes: member },
	admin: { scopes: admin },
	operator: { scopes: admin, operator: true },
	'an admin who reads only': { scopes: admin.filter((scope) => scope.endsWith(':read') && scope !== 'llm_gateway:read') },
	'a member for one thing': { scopes: ['sandboxes:read'] },
};

describe('every route and every caller', () => {
	const cloche = withDaemon({ before, after }, { listen: '127.0.0.1:0', config: '[sandboxes.default]\npool = 0\n[server]\nrate_limit = 0\n' });
	const callers = {};
	let document, nobody, stranger;
	const objects = { exec: 'ex_00000000000000000000', image: 'nosuch', environment: 'nosuch', variable: 'NAME', profile: 'default', key: 'ky_00000000000000000000', team: 'ours', member: 'somebody', trusted: 'nosuch', sandbox: 'sb_00000000000000000000', task: 'ta_00000000000000000000', run: 'ru_00000000000000000000', artifact: 'af_00000000000000000000', webhook: 'wh_00000000000000000000', delivery: 'msg_00000000000000000000', service: 'nosuch', provider: 'nosuch', forge: 'nosuch', port: '8080', approval: 'ap_00000000000000000000', skill: 'nosuch', noun: 'nosuch', verb: 'nosuch' };
	const fill = (route, more = {}) => route.replace(/\{(\w+)\}/g, (_, name) => ({ ...objects, ...more })[name]);
	const operation = ({ method, route }) => document.paths[route.startsWith('//') ? route.slice(1) : `/api/v1${route}`]?.[method.toLowerCase()];

	before(async () => {
		document = await cloche.get('GET', '/openapi.json');
		await cloche.get('POST', '/teams', { name: 'ours' });
		await cloche.get('POST', '/teams', { name: 'theirs' });
		for (const role of ['viewer', 'member', 'admin']) await cloche.get('PUT', `/teams/ours/members/${role}`, { role });
		await cloche.get('PUT', '/teams/theirs/members/stranger', { role: 'admin' });
		const key = async (body) => cloche.as((await cloche.key({ name: 'matrix', ...body })).secret);
		for (const role of ['viewer', 'member', 'admin']) callers[role] = await key({ team: 'ours', principal: role });
		callers.operator = await key({ operator: true });
		callers['an admin who reads only'] = await key({ team: 'ours', principal: 'admin', scopes: 'read_only' });
		callers['a member for one thing'] = await key({ team: 'ours', principal: 'member', scopes: ['sandboxes:read'] });
		stranger = await key({ team: 'theirs', principal: 'stranger' });
		nobody = await cloche.as();
	});

	test('the table and the document name the same routes and scopes', () => {
		const told = [];
		for (const [path, item] of Object.entries(document.paths))
			for (const [method, { security, 'x-operator': operator }] of Object.entries(item)) {
				const route = path.startsWith('/api/v1') ? path.slice('/api/v1'.length) : `/${path}`;
				const scope = security.length === 0 ? 'public' : (security[0].key[0] ?? 'known');
				told.push(`${method.toUpperCase()} ${route}: ${scope}${operator ? ' operator' : ''}`);
			}
		assert.deepEqual(told.toSorted(), ROUTES.trim().split('\n').toSorted(), 'say in ROUTES who may use a new route');
	});

	test('roles have what the table says', async () => {
		for (const [role, { scopes }] of Object.entries(ROLES)) {
			const me = await callers[role].expect(200, 'GET', '/me');
			assert.deepEqual(me.scopes.toSorted(), scopes.toSorted(), role);
		}
	});

	// A query parameter that no route has is refused after the scope, and before anything is done.
	test('who lacks the scope is refused, and hears which; who has it is let in', async () => {
		for (const route of routes) {
			if (route.scope === 'public') continue;
			const path = `${fill(route.route)}?nosuch=1`;
			const strange = await nobody.api(route.method, path);
			// after some dozens of them a stranger has to wait, which is no answer either
			assert.ok([401, 429].includes(strange.status), `${route.name} for nobody: ${strange.status}`);
			for (const [role, { scopes, operator }] of Object.entries(ROLES)) {
				const answer = await callers[role].api(route.method, path);
				const allowed = (route.scope === 'known' || scopes.includes(route.scope)) && (!route.operator || operator);
				// a port takes every parameter, and the model gateway, it is not ours to know; but nothing is there
				const letIn = /ports|^\/llm/.test(route.route) ? 404 : 400;
				assert.equal(answer.status, allowed ? letIn : 403, `${route.name} for ${role}: ${answer.bytes}`);
				if (!allowed && !scopes.includes(route.scope)) assert.match(answer.body.detail, new RegExp(route.scope), `${route.name} for ${role}`);
			}
		}
	});

	test('what one may not see is as what is not there, on every route', async () => {
		const { admin, member } = callers;
		const made = {
			sandbox: (await admin.expect(201, 'POST', '/sandboxes', { visibility: 'private' })).id,
			environment: (await admin.expect(201, 'POST', '/environments', { name: 'hidden', visibility: 'private' })).id,
			key: (await admin.expect(200, 'GET', '/me')).credential,
			task: (await admin.expect(201, 'POST', '/tasks', { instruction: 'true', start: false })).task.id,
			session: (await admin.expect(201, 'POST', '/sessions', { agent: 'cloche-agent' })).session.id,
			webhook: (await admin.expect(201, 'POST', '/webhooks', { url: 'https://example.org/', events: ['task.*'] })).id,
		};
		const absent = { ...objects, environment: 'en_00000000000000000000', task: made.task.replace(/_.*/, '_00000000000000000000'), session: 'ses_00000000000000000000' };
		const hiddenFrom = { sandbox: [stranger, member], environment: [stranger, member], key: [stranger, member], task: [stranger], session: [stranger], webhook: [stranger] };
		let asked = 0;
		for (const route of routes) {
			const kind = Object.keys(made).find((name) => route.route.includes(`{${name}}`));
			if (!kind) continue;
			const schema = operation(route).requestBody?.content['application/json']?.schema.$ref?.split('/').at(-1);
			const body = schema ? BODIES[schema] : undefined;
			assert.ok(!schema || body, `a body for ${schema}`);
			const ask = (caller, id) => caller.api(route.method, `${fill(route.route, { [kind]: id })}${/files|archive/.test(route.route) && !body ? '?path=/workspace' : ''}`, body);
			for (const caller of hiddenFrom[kind]) {
				const hidden = await ask(caller, made[kind]);
				const nothing = await ask(caller, absent[kind]);
				asked++;
				assert.equal(hidden.status, nothing.status, route.name);
				assert.equal(String(hidden.bytes).replaceAll(made[kind], 'ID'), String(nothing.bytes).replaceAll(absent[kind], 'ID'), route.name);
				// Events outlive their sandbox: there are none to be seen.
				assert.equal(hidden.status, route.route === '/sandboxes/{sandbox}/events' ? 200 : 404, route.name);
				if (hidden.status === 200) assert.deepEqual(hidden.body.items, []);
			}
		}
		assert.ok(asked > 80);
		assert.equal((await admin.expect(200, 'GET', `/sandboxes/${made.sandbox}`)).state, 'running', 'and nothing happened to it');
		await admin.expect(200, 'POST', `/sessions/${made.session}/end`, {});
		await admin.expect(204, 'DELETE', `/sandboxes/${made.sandbox}?force=1`);
		await admin.expect(204, 'DELETE', `/environments/${made.environment}`);
	});

	test('no method or path falls through to a handler', async () => {
		for (const path of ['//', '//api', '//api/v1', '//api/v1/', '//api/v2/sandboxes', '/sandboxes/', '/Sandboxes', '/sandboxes/x/y', '/keys/x/rotate/x', '//api/v1//keys', '//metrics/'])
			for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
				const answer = await callers.operator.api(method, path);
				assert.ok([404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`);
			}
		for (const method of ['OPTIONS', 'TRACE', 'PROPFIND']) {
			const answer = await callers.operator.api(method, '/sandboxes');
			assert.ok([404, 405].includes(answer.status), `${method}: ${answer.status}`);
		}
	});
});
