// Files of a live sandbox: read, write, list, watch, trees, transfers in constant memory.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Readable } from 'node:stream';

import { raw, readAll, residentBytes, sleep, tar, untar, until, withDaemon } from './lib.mjs';

describe('files', () => {
	const cloche = withDaemon({ before, after });
	let box;
	before(async () => {
		box = (await cloche.create({ name: 'files', limits: { disk: '1G', memory: '2G' } })).id;
	});
	const route = (rest) => `/sandboxes/${box}/${rest}`;
	const at = (file) => `path=${encodeURIComponent(file)}`;
	const put = (file, content, more = '') => cloche.api('PUT', route(`files?${at(file)}${more}`), content);
	const read = (file) => cloche.api('GET', route(`files?${at(file)}`));

	test('write, read, stat, list', async () => {
		assert.equal((await put('/workspace/a.txt', 'hello')).status, 204);
		assert.equal(String((await read('/workspace/a.txt')).bytes), 'hello');
		const stat = await cloche.get('GET', route(`files/stat?${at('/workspace/a.txt')}`));
		assert.equal(stat.type, 'file');
		assert.equal(stat.size, 5);
		assert.equal(stat.mode, '0644');
		assert.equal(stat.uid, 1000);
		const { items } = await cloche.get('GET', route(`files/list?${at('/workspace')}`));
		assert.ok(items.some((one) => one.name === 'a.txt' && one.type === 'file'));
		assert.equal(String((await cloche.api('GET', route(`files?${at('/workspace/a.txt')}&offset=1&length=3`))).bytes), 'ell');
	});

	test('modes and parents', async () => {
		assert.equal((await put('/workspace/x/y/z.sh', '#!/bin/sh\necho ran\n', '&mode=0755&parents=1')).status, 204);
		assert.equal((await cloche.exec(box, ['/workspace/x/y/z.sh'])).stdout, 'ran\n');
		assert.equal((await put('/workspace/none/file', 'x')).status, 404);
		assert.equal((await put('/usr/file', 'x')).status, 403);
		assert.equal((await put('/workspace/bad', 'x', '&mode=999')).status, 400);
	});

	test('a write is seen whole or not at all', async () => {
		await put('/workspace/atomic', 'a'.repeat(100000));
		const { id } = await cloche.exec(box, 'i=0; while [ $i -lt 200 ]; do s=$(wc -c < /workspace/atomic); case $s in 100000|200000) ;; *) echo torn $s;; esac; i=$((i+1)); done; echo done', { background: true });
		for (let i = 0; i < 20; i++) await put('/workspace/atomic', (i % 2 ? 'a' : 'b').repeat(i % 2 ? 100000 : 200000));
		await until(async () => (await cloche.get('GET', route(`execs/${id}`))).state === 'ended', 'reader ended');
		assert.equal(String((await cloche.api('GET', route(`execs/${id}/output`))).bytes), 'done\n');
		assert.ok(!(await cloche.exec(box, 'ls -A /workspace')).stdout.includes('.tmp'));
	});

	test('a reader slower than its sandbox gets everything', { timeout: 60000 }, async () => {
		await cloche.exec(box, 'head -c 8M /dev/urandom > /workspace/slow');
		const sum = (await cloche.exec(box, 'sha256sum < /workspace/slow')).stdout.split(' ')[0];
		const response = await cloche.stream('GET', `/sandboxes/${box}/files?path=/workspace/slow`);
		const hash = crypto.createHash('sha256');
		for await (const part of response) {
			hash.update(part);
			await sleep(part.length / 4096);
		}
		assert.equal(hash.digest('hex'), sum);
		assert.deepEqual((await cloche.get('GET', `/sandboxes/${box}/execs`)).items.filter((one) => one.argv[0] === '/run/cloche/cloche'), []);
	});

	test('an upload that breaks off changes nothing', async () => {
		await put('/workspace/keep', 'old');
		const head = `PUT /api/v1${route(`files?${at('/workspace/keep')}`)} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n`;
		await raw(cloche.socket, head + 'x'.repeat(5000), { ms: 300 });
		await until(async () => (await cloche.get('GET', route('execs?running=1'))).items.length === 0, 'the writer inside is gone');
		assert.equal(String((await read('/workspace/keep')).bytes), 'old');
	});

	test('mkdir, rename, remove', async () => {
		assert.equal((await cloche.api('POST', route('files/mkdir'), { path: '/workspace/d/e', parents: true })).status, 204);
		assert.equal((await cloche.api('POST', route('files/mkdir'), { path: '/workspace/d/e' })).status, 409);
		assert.equal((await cloche.api('POST', route('files/rename'), { from: '/workspace/d/e', to: '/workspace/d/f' })).status, 204);
		assert.ok((await cloche.api('DELETE', route(`files?${at('/workspace/d')}`))).status >= 400);
		assert.equal((await cloche.api('DELETE', route(`files?${at('/workspace/d')}&recursive=1`))).status, 204);
		assert.equal((await cloche.api('GET', route(`files/stat?${at('/workspace/d')}`))).status, 404);
		assert.ok((await cloche.api('DELETE', route(`files?${at('/')}&recursive=1&user=root`))).status >= 400);
	});

	test('links are the sandbox\'s own affair', async () => {
		await cloche.exec(box, 'ln -sfn / /workspace/root; ln -sfn /etc/passwd /workspace/passwd; ln -sfn /nonexistent /workspace/dangling; mkfifo /workspace/pipe');
		const inside = String((await read('/workspace/passwd')).bytes);
		assert.match(inside, /^agent:x:1000/m);
		const stat = await cloche.get('GET', route(`files/stat?${at('/workspace/root')}`));
		assert.equal(stat.type, 'symlink');
		assert.equal(stat.target, '/');
		await put('/workspace/passwd', 'replaced');
		assert.equal((await cloche.exec(box, 'test -L /workspace/passwd || cat /workspace/passwd')).stdout, 'replaced');
		assert.equal((await read('/workspace/dangling')).status, 404);
		const fifo = await read('/workspace/pipe');
		assert.ok(fifo.status >= 400 && fifo.status < 500, 'a FIFO is refused, not waited for');
	});

	test('who asks decides', async () => {
		await cloche.exec(box, 'echo secret > /root/file; chmod 600 /root/file', { user: 'root' });
		assert.equal((await read('/root/file')).status, 403);
		assert.equal(String((await cloche.api('GET', route(`files?${at('/root/file')}&user=root`))).bytes), 'secret\n');
	});

	test('strange names', async () => {
		await cloche.exec(box, ['python3', '-c', 'import os\nos.mkdir("/workspace/odd")\nfor n in [b"a\\nb", b"\\xff\\xfe", b" ", b"%41", "ž".encode(), b"-rf", b"x"*255]:\n open(b"/workspace/odd/"+n,"w").write("1")']);
		const { items } = await cloche.get('GET', route(`files/list?${at('/workspace/odd')}`));
		const names = items.map((one) => (one.nameBase64 ? Buffer.from(one.nameBase64, 'base64').toString('latin1') : one.name)).sort();
		assert.deepEqual(names, ['a\nb', '\xff\xfe', ' ', '%41', 'ž', '-rf', 'x'.repeat(255)].sort());
		assert.equal(String((await read('/workspace/odd/a\nb')).bytes), '1');
		assert.equal(String((await read('/workspace/odd/-rf')).bytes), '1');
	});

	test('watch tells what changes', async () => {
		await cloche.exec(box, 'mkdir -p /workspace/watched');
		const events = await cloche.events(route(`files/watch?${at('/workspace/watched')}&recursive=1`));
		const seen = [];
		const next = async () => {
			const event = await events.next();
			const data = JSON.parse(event.data);
			seen.push(data);
			return data;
		};
		await next();
		await cloche.exec(box, 'echo 1 > /workspace/watched/f; mkdir /workspace/watched/sub; mv /workspace/watched/f /workspace/watched/g; rm /workspace/watched/g');
		const text = () => JSON.stringify(seen);
		for (let i = 0; i < 20 && !/removed/.test(text()); i++) await next();
		assert.match(text(), /created/);
		assert.match(text(), /removed/);
		events.close();
		const before = (await cloche.get('GET', route('execs?running=1'))).items.length;
		await until(async () => (await cloche.get('GET', route('execs?running=1'))).items.length <= before, 'the watcher ends with its reader');
	});

	test('trees in and out', async () => {
		const archive = tar([
			{ name: 'top/', type: 'dir' },
			{ name: 'top/file', content: 'one', mode: 0o640 },
			{ name: 'top/run', content: '#!/bin/sh\n', mode: 0o755 },
			{ name: 'top/link', type: 'symlink', linkname: 'file' },
			{ name: `top/${'long'.repeat(50)}`, content: 'two' },
		]);
		assert.equal((await cloche.api('PUT', route(`archive?${at('/workspace/tree')}&parents=1`), archive)).status, 204);
		const listed = (await cloche.exec(box, 'cd /workspace/tree && find . | sort && stat -c %a top/run top/file && readlink top/link')).stdout;
		assert.match(listed, /755\n640\nfile\n$/);
		const back = untar((await cloche.api('GET', route(`archive?${at('/workspace/tree')}`))).bytes);
		const names = back.map((entry) => entry.name.replace(/^\.\//, '').replace(/\/$/, '')).filter((name) => name && name !== '.').sort();
		assert.deepEqual(names, ['top', 'top/file', 'top/link', 'top/run', `top/${'long'.repeat(50)}`].sort());
	});

	test('cp both ways, files and folders', async () => {
		const folder = path.join(cloche.folder, 'cp');
		fs.mkdirSync(path.join(folder, 'src/sub'), { recursive: true });
		fs.writeFileSync(path.join(folder, 'src/sub/file'), 'content');
		fs.symlinkSync('sub/file', path.join(folder, 'src/link'));
		await cloche.ok(['sandbox', 'cp', path.join(folder, 'src'), 'files:/workspace/copied']);
		assert.equal((await cloche.exec(box, 'cd /workspace; cat copied/sub/file 2>/dev/null || cat copied/src/sub/file')).stdout, 'content');
		await cloche.ok(['sandbox', 'cp', 'files:/workspace/copied', path.join(folder, 'back')]);
		const found = ['back/sub/file', 'back/copied/sub/file', 'back/src/sub/file'].find((name) => fs.existsSync(path.join(folder, name)));
		assert.equal(fs.readFileSync(path.join(folder, found), 'utf8'), 'content');
		fs.writeFileSync(path.join(folder, 'one'), 'single');
		await cloche.ok(['sandbox', 'cp', path.join(folder, 'one'), 'files:/workspace/single']);
		await cloche.ok(['sandbox', 'cp', 'files:/workspace/single', path.join(folder, 'two')]);
		assert.equal(fs.readFileSync(path.join(folder, 'two'), 'utf8'), 'single');
	});

	test('the command line\'s file verbs', async () => {
		await cloche.ok(['sandbox', 'files', 'write', 'files', '/workspace/cli'], { input: 'from cli\n' });
		assert.equal(await cloche.ok(['sandbox', 'files', 'cat', 'files', '/workspace/cli']), 'from cli\n');
		assert.match(await cloche.ok(['sandbox', 'files', 'ls', 'files', '/workspace']), /cli/);
		assert.equal((await cloche.json(['sandbox', 'files', 'stat', 'files', '/workspace/cli'])).size, 9);
		await cloche.ok(['sandbox', 'files', 'mkdir', '-p', 'files', '/workspace/p/q']);
		await cloche.ok(['sandbox', 'files', 'mv', 'files', '/workspace/cli', '/workspace/p/q/r']);
		await cloche.ok(['sandbox', 'files', 'rm', '-r', 'files', '/workspace/p']);
		assert.equal((await cloche.cli(['sandbox', 'files', 'cat', 'files', '/workspace/cli'])).code, 66);
	});

	for (const megabytes of [1, 16, 256])
		test(`${megabytes} MiB stream through in constant memory`, { timeout: 180000 }, async () => {
			const daemon = cloche.daemonProcess();
			const before = residentBytes(daemon.pid);
			const block = crypto.randomBytes(1 << 20);
			const up = crypto.createHash('sha256');
			let peak = 0;
			const source = Readable.from((async function* () {
				for (let i = 0; i < megabytes; i++) {
					block.writeUInt32LE(i, 0);
					up.update(block);
					peak = Math.max(peak, residentBytes(daemon.pid));
					yield Buffer.from(block);
				}
			})());
			const sent = await cloche.stream('PUT', `${route(`files?${at('/workspace/big')}`)}`, { headers: { 'content-length': megabytes << 20 }, body: source });
			assert.equal(sent.statusCode, 204, String(await readAll(sent)));
			const down = crypto.createHash('sha256');
			const response = await cloche.stream('GET', route(`files?${at('/workspace/big')}`));
			for await (const part of response) {
				down.update(part);
				peak = Math.max(peak, residentBytes(daemon.pid));
			}
			assert.equal(down.digest('hex'), up.digest('hex'));
			assert.ok(peak - before < 16 << 20, `the daemon grew by ${(peak - before) >> 20} MiB`);
			await cloche.api('DELETE', route(`files?${at('/workspace/big')}`));
		});
});
