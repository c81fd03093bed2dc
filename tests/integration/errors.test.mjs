// Bad input: each gets a status, a stable code and a sentence; nothing changes.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

describe('bad input', () => {
	const cloche = withDaemon({ before, after });
	let box;
	before(async () => {
		box = (await cloche.create({ name: 'target' })).id;
	});

	const long = 'x'.repeat(300);
	const api = [
		['POST', '/sandboxes', { memory: '1G' }, 400, /memory/],
		['POST', '/sandboxes', { limits: { memory: 'lots' } }, 400, /memory/],
		['POST', '/sandboxes', { limits: { memory: -5 } }, 400, /memory/],
		['POST', '/sandboxes', { limits: { memory: '1K' } }, 400, /memory/],
		['POST', '/sandboxes', { limits: { pids: 2.5 } }, 400, /pids/],
		['POST', '/sandboxes', { limits: { cpus: 1 } }, 400, /cpus/],
		['POST', '/sandboxes', { limits: null }, 400, /limits/],
		['POST', '/sandboxes', { name: '' }, 400, /name/],
		['POST', '/sandboxes', { name: 'a/b' }, 400, /name/],
		['POST', '/sandboxes', { name: '../x' }, 400, /name/],
		['POST', '/sandboxes', { name: long }, 400, /name/],
		['POST', '/sandboxes', { name: 'target' }, 409, /target/],
		['POST', '/sandboxes', { image: 'nosuch' }, 404, /nosuch/],
		['POST', '/sandboxes', { profile: 'nosuch' }, 404, /nosuch/],
		['POST', '/sandboxes', { runtime: 'docker' }, [400, 501], /docker|runtime/],
		['POST', '/sandboxes', { network: 'Full!' }, [400], /network/],
		['POST', '/sandboxes', { diskBackend: 'floppy' }, 400, /floppy|disk/],
		['POST', '/sandboxes', { ttl: -1 }, 400, /ttl/],
		['POST', '/sandboxes', { env: { 'A=B': 'x' } }, 400, /env|A=B/],
		['POST', '/sandboxes', { env: { A: 'x\0y' } }, 400, /./],
		['POST', '/sandboxes', { env: ['A=B'] }, 400, /env/],
		['POST', '/sandboxes', { labels: { a: 1 } }, 400, /label/],
		['POST', '/sandboxes', { labels: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`l${i}`, 'x'])) }, 400, /label/],
		['POST', '/sandboxes', { cwd: 'relative' }, 400, /cwd/],
		['POST', '/sandboxes', { user: 'no such' }, 400, /user/],
		['POST', '/sandboxes', { mounts: [{ grant: 'gr_nosuch', target: '/mnt' }] }, [400, 404], /grant/],
		['POST', '/sandboxes', { mounts: [{ grant: 'gr_00000000000000000000', target: '/mnt' }] }, [403, 404], /grant/],
		['POST', '/sandboxes', { mounts: [{ source: '/etc', target: '/mnt' }] }, 400, /grant/],
		['POST', '/sandboxes', [], 400, /object/],
		['GET', '/sandboxes/nosuch', undefined, 404, /nosuch/],
		['GET', '/sandboxes/sb_00000000000000000000', undefined, 404, /sb_0/],
		['GET', '/sandboxes?state=flying', undefined, 400, /flying|state/],
		['GET', '/sandboxes?limit=-1', undefined, 400, /limit/],
		['GET', '/sandboxes?limit=many', undefined, 400, /limit/],
		['GET', '/sandboxes?cursor=garbage', undefined, 400, /cursor/],
		['GET', '/sandboxes?colour=red', undefined, 400, /colour/],
		['PATCH', '/sandboxes/target', { state: 'running' }, 400, /state/],
		['DELETE', '/sandboxes/target', undefined, 409, /./],
		['PUT', '/sandboxes', {}, 405, /./],
		['GET', '/nosuch', undefined, 404, /./],
		['POST', '/sandboxes/target/execs', {}, 400, /argv|shell/],
		['POST', '/sandboxes/target/execs', { argv: [] }, 400, /argv/],
		['POST', '/sandboxes/target/execs', { argv: ['a'], shell: 'b' }, 400, /argv|shell/],
		['POST', '/sandboxes/target/execs', { argv: 'ls' }, 400, /argv/],
		['POST', '/sandboxes/target/execs', { argv: ['a\0b'] }, 400, /./],
		['POST', '/sandboxes/target/execs', { argv: ['true'], cwd: '/nosuch' }, [400, 404], /nosuch|cwd/],
		['POST', '/sandboxes/target/execs', { argv: ['true'], user: 'nosuch' }, [400, 404], /nosuch|user/],
		['POST', '/sandboxes/target/execs', { argv: ['true'], user: '99999999' }, 400, /user|99999999/],
		['POST', '/sandboxes/target/execs', { argv: ['true'], tty: true, rows: 0 }, 400, /rows/],
		['POST', '/sandboxes/target/execs', { argv: ['true'], timeoutMs: 'soon' }, 400, /timeoutMs/],
		['GET', '/sandboxes/target/execs/ex_00000000000000000000', undefined, 404, /ex_0/],
		['GET', '/sandboxes/target/execs/..', undefined, [400, 404], /./],
		['GET', '/sandboxes/target/files', undefined, 400, /path/],
		['GET', '/sandboxes/target/files?path=/nosuch', undefined, 404, /nosuch/],
		['GET', '/sandboxes/target/files?path=/workspace', undefined, [400, 409], /./],
		['GET', '/sandboxes/target/files?path=%00', undefined, [400, 404], /./],
		['POST', '/sandboxes/target/files/mkdir', { path: '/proc/x' }, [403, 404], /./],
		['POST', '/images?name=..', 'x', 400, /name/],
		['POST', '/images?name=host', 'x', [400, 409], /host/],
		['POST', '/images', 'x', 400, /name/],
		['POST', '/images?name=x&format=zip', 'x', 400, /format|zip/],
		['GET', '/images/nosuch', undefined, 404, /nosuch/],
		['GET', '/events?after=soon', undefined, 400, /after/],
	];
	for (const [method, route, body, status, pattern] of api)
		test(`${method} ${route} ${JSON.stringify(body)?.slice(0, 60) ?? ''}`, async () => {
			const answer = await cloche.api(method, route, body);
			assert.ok([status].flat().includes(answer.status), `${answer.status} ${answer.bytes}`);
			assert.match(answer.headers['content-type'], /^application\/problem\+json/);
			assert.equal(answer.body.status, answer.status);
			assert.match(answer.body.code, /^[a-z_]+$/);
			assert.match(answer.body.detail, pattern);
			for (const field of ['type', 'title']) assert.equal(typeof answer.body[field], 'string');
		});

	const commands = [
		[['sandbox', 'exec', 'target'], 125, /usage|COMMAND|command/i],
		[['sandbox', 'exec', 'nosuch', '--', 'true'], 125, /nosuch/],
		[['sandbox', 'info'], 64, /ID/],
		[['sandbox', 'info', 'nosuch'], 66, /nosuch/],
		[['sandbox', 'frobnicate'], 64, /frobnicate/],
		[['sandbx', 'list'], 64, /sandbx/],
		[['sandbox', 'list', '--nosuch'], 64, /--nosuch/],
		[['sandbox', 'create', '--memory', 'lots'], 64, /memory/],
		[['sandbox', 'create', '-v', '/nosuch:/mnt'], [64, 66, 74], /nosuch/],
		[['sandbox', 'create', '-v', 'nocolon'], 64, /nocolon|SRC/],
		[['sandbox', 'cp', 'a', 'b'], 64, /ID:PATH|sandbox/],
		[['sandbox', 'extend', 'target', 'soon'], 64, /soon/],
		[['sandbox', 'rm', 'target'], 73, /running|force/],
		[['image', 'import', 'x', '/nosuch'], [64, 66, 74], /nosuch/],
		[['image', 'rm', 'nosuch'], 66, /nosuch/],
		[['-o', 'xml', 'sandbox', 'list'], 64, /xml/],
		[['run'], 125, /COMMAND|command/],
		[['run', '--memory', '1', '--', 'true'], 125, /memory/],
		[['run', '--image', 'nosuch', '--', 'true'], 125, /nosuch/],
		[['completion', 'tcsh'], 64, /tcsh/],
		[['help', 'nosuch'], [64, 66], /nosuch/],
	];
	for (const [args, code, pattern] of commands)
		test(`cloche ${args.join(' ')}`, async () => {
			const result = await cloche.cli(args);
			assert.ok([code].flat().includes(result.code), `${result.code ?? result.signal}: ${result.stderr}`);
			assert.match(result.stderr, pattern);
			assert.equal(result.stdout, '');
		});

	test('errors as JSON with -o json', async () => {
		const result = await cloche.cli(['-o', 'json', 'sandbox', 'info', 'nosuch']);
		assert.equal(JSON.parse(result.stderr).code, 'not_found');
	});

	test('nothing was made on the way', async () => {
		const { items } = await cloche.get('GET', '/sandboxes');
		assert.deepEqual(items.map((one) => one.id), [box]);
	});
});
