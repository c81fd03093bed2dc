// Images: import of tar, OCI layout and docker archive; whiteouts, links, long names; hostile
// archives are refused and leave nothing.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { execFileSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';

import { dockerArchive, filesAsTar, ociLayout, sha256, tar, until, withDaemon } from './lib.mjs';

// A root file system in a few files: a shell and what the tests call, with their libraries.
function rootfs() {
	const entries = [
		{ name: 'bin/', type: 'dir' },
		{ name: 'etc/', type: 'dir' },
		{ name: 'tmp/', type: 'dir', mode: 0o1777 },
		{ name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n' },
		{ name: 'etc/marker', content: 'from the image\n' },
	];
	const seen = new Set();
	for (const file of ['/bin/sh', '/bin/cat', '/bin/ls', '/usr/bin/stat', '/usr/bin/id']) {
		const libraries = execFileSync('ldd', [file]).toString().match(/\/\S+/g) ?? [];
		for (const one of [file, ...libraries.filter((text) => text.startsWith('/'))]) {
			if (seen.has(one)) continue;
			seen.add(one);
			entries.push({ name: one.slice(1), content: fs.readFileSync(one), mode: 0o755 });
		}
	}
	return entries;
}

describe('images', () => {
	const cloche = withDaemon({ before, after });
	const base = rootfs();
	const importBytes = (name, bytes, format = 'auto') => cloche.api('POST', `/images?name=${name}&format=${format}`, bytes, { headers: { 'content-type': 'application/octet-stream' } });
	const inImage = (image, script, user = 'root') => cloche.cli(['run', '--image', image, '--user', user, '--', '/bin/sh', '-c', script]);
	const prints = async (image, script, wanted, user) => {
		const ran = await inImage(image, script, user);
		assert.equal(ran.stdout, wanted, JSON.stringify(ran));
	};
	const layers = () => fs.readdirSync(path.join(cloche.state, 'layers')).filter((name) => name.startsWith('ly_'));
	// The host image has a layer too, made on its first use; others are removed after the answer.
	let own;
	before(async () => {
		await cloche.ok(['run', '--', 'true']);
		own = layers();
	});
	const noLayersLeft = () => until(() => layers().every((name) => own.includes(name)), `layers go with their image: ${layers()}`);

	test('a tar becomes an image a sandbox runs in', async () => {
		const answer = await importBytes('plain', tar(base));
		assert.equal(answer.status, 201, String(answer.bytes));
		assert.equal(answer.body.name, 'plain');
		assert.equal(answer.body.format, 'tar');
		assert.equal(answer.body.layers.length, 1);
		await prints('plain', 'cat /etc/marker; id -u', 'from the image\n0\n');
		await prints('plain', 'id -u', '1000\n', 'agent');
	});

	test('compressed archives too', async () => {
		assert.equal((await importBytes('gz', zlib.gzipSync(tar(base)))).status, 201);
		const file = path.join(cloche.folder, 'image.tar');
		fs.writeFileSync(file, tar(base));
		execFileSync('zstd', ['-q', '-f', file]);
		await cloche.ok(['image', 'import', 'zst', `${file}.zst`]);
		await prints('zst', 'cat /etc/marker', 'from the image\n');
	});

	test('an image is not changed by its sandboxes', async () => {
		await inImage('plain', 'echo changed > /etc/marker; echo new > /etc/new; ls /etc');
		const again = await inImage('plain', 'cat /etc/marker; ls /etc');
		assert.match(again.stdout, /^from the image\n/, JSON.stringify(again));
		assert.ok(!/^new$/m.test(again.stdout));
	});

	test('OCI layouts: layers, whiteouts, opaque folders, config', async () => {
		const upper = tar([
			{ name: 'etc/.wh.marker', content: '' },
			{ name: 'data/', type: 'dir' },
			{ name: 'data/.wh..wh..opq', content: '' },
			{ name: 'data/second', content: '2' },
		]);
		const lower = tar([...base, { name: 'data/', type: 'dir' }, { name: 'data/first', content: '1' }]);
		const files = ociLayout([lower, upper], { config: { Env: ['FROM_IMAGE=yes'], WorkingDir: '/data' } });
		const answer = await importBytes('oci', filesAsTar(files));
		assert.equal(answer.status, 201, String(answer.bytes));
		assert.equal(answer.body.layers.length, 2);
		const ran = await inImage('oci', 'ls /etc /data; echo $FROM_IMAGE');
		assert.ok(!/marker/.test(ran.stdout), ran.stdout);
		assert.ok(!/first/.test(ran.stdout));
		assert.match(ran.stdout, /second/);
		const folder = path.join(cloche.folder, 'layout');
		for (const [name, bytes] of files) {
			fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
			fs.writeFileSync(path.join(folder, name), bytes);
		}
		await cloche.ok(['image', 'import', 'oci-folder', folder]);
		assert.match((await inImage('oci-folder', 'ls /data')).stdout, /second/);
	});

	test('docker archives', async () => {
		const answer = await importBytes('docker', dockerArchive([tar(base), tar([{ name: 'etc/second', content: 'two\n' }])]));
		assert.equal(answer.status, 201, String(answer.bytes));
		assert.equal(answer.body.format, 'docker-archive');
		await prints('docker', 'cat /etc/second', 'two\n');
	});

	test('hard links, symbolic links, long names, owners', async () => {
		const long = 'd'.repeat(120) + '/' + 'f'.repeat(120);
		const answer = await importBytes('odd', tar([
			...base,
			{ name: `${'d'.repeat(120)}/`, type: 'dir' },
			{ name: long, content: 'long' },
			{ name: 'hard', type: 'hardlink', linkname: 'etc/marker' },
			{ name: 'abs', type: 'symlink', linkname: '/etc/marker' },
			{ name: 'rel', type: 'symlink', linkname: 'etc/marker' },
			{ name: 'owned', content: 'x', uid: 1000, gid: 1000 },
		]));
		assert.equal(answer.status, 201, String(answer.bytes));
		const ran = await inImage('odd', `cat /${long}; stat -c %h /hard; cat /abs /rel; stat -c %u:%g /owned /etc/marker`);
		assert.equal(ran.stdout, 'long2\nfrom the image\nfrom the image\n1000:1000\n0:0\n', ran.stderr);
	});

	test('list, info, rm; one in use stays', async () => {
		const listed = await cloche.json(['image', 'list']);
		const names = listed.map((one) => one.name);
		assert.ok(names.includes('plain') && names.includes('host'), String(names));
		assert.equal((await cloche.json(['image', 'info', 'plain'])).name, 'plain');
		assert.equal((await importBytes('plain', tar(base))).status, 409, 'a name belongs to one image');
		const sandbox = await cloche.create({ image: 'plain' });
		assert.equal((await cloche.api('DELETE', '/images/plain')).status, 409);
		await cloche.get('DELETE', `/sandboxes/${sandbox.id}?force=1`);
		for (const name of ['plain', 'gz', 'zst', 'oci', 'oci-folder', 'docker', 'odd']) await cloche.ok(['image', 'rm', name]);
		assert.equal((await cloche.api('GET', '/images/plain')).status, 404);
		await noLayersLeft();
		assert.equal((await cloche.api('DELETE', '/images/host')).status, 409);
	});

	// E26, E27, R12: each must be refused, name its entry, leave no layer and touch nothing outside.
	const outside = () => path.join(cloche.folder, 'outside');
	const hostile = {
		'climbing name': () => tar([{ name: '../../../../../../../../tmp/cloche-escaped', content: 'x' }]),
		'climbing in the middle': () => tar([{ name: 'a/../../../b', content: 'x' }]),
		'file through a symbolic link': () => tar([{ name: 'link', type: 'symlink', linkname: outside() }, { name: 'link/file', content: 'x' }]),
		'folder through a symbolic link': () => tar([{ name: 'link', type: 'symlink', linkname: '../../../..' }, { name: 'link/tmp/x/', type: 'dir' }]),
		'hard link to outside': () => tar([{ name: 'shadow', type: 'hardlink', linkname: '/etc/shadow' }]),
		'hard link that climbs': () => tar([{ name: 'shadow', type: 'hardlink', linkname: '../../../../../etc/shadow' }]),
		'hard link through a link': () => tar([{ name: 'l', type: 'symlink', linkname: '/etc' }, { name: 'h', type: 'hardlink', linkname: 'l/shadow' }]),
		'sparse terabyte': () => tar([{ name: 'big', pax: { 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 'big', 'GNU.sparse.realsize': String(2 ** 40) }, content: '1\n1099511627000\n1\n' + '\0'.repeat(495) + 'x' }]),
		'claimed terabyte': () => Buffer.concat([tar([{ name: 'big', size: 2 ** 40 }]).subarray(0, 512), Buffer.alloc(1024)]),
		'bomb': () => zlib.gzipSync(tar([{ name: 'zeros', content: Buffer.alloc(512 << 20) }]), { level: 9 }),
		'truncated': () => tar([{ name: 'file', content: 'x'.repeat(5000) }]).subarray(0, 2000),
		'no archive': () => Buffer.from('this is not an archive at all'),
		'empty': () => Buffer.alloc(0),
		'OCI blob with another digest': () => filesAsTar(ociLayout([tar(base)], { damage: (files) => {
			const name = [...files.keys()].find((key) => key.startsWith('blobs/') && files.get(key).length > 10000);
			const bytes = Buffer.from(files.get(name));
			bytes[bytes.length - 2000] ^= 1;
			files.set(name, bytes);
		} })),
		'OCI index that climbs': () => filesAsTar(ociLayout([tar(base)], { damage: (files) => files.set('index.json', Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [{ digest: 'sha256:../../../../etc/passwd', size: 10 }] }))) })),
		'OCI index that is no JSON': () => filesAsTar(ociLayout([tar(base)], { damage: (files) => files.set('index.json', Buffer.from('{')) })),
		'docker manifest that climbs': () => dockerArchive([tar(base)], { damage: (files) => files.set('manifest.json', Buffer.from(JSON.stringify([{ Config: '../../etc/passwd', Layers: ['../../../etc/shadow'] }]))) }),
		'hostile layer in an OCI layout': () => filesAsTar(ociLayout([tar([{ name: '../escaped', content: 'x' }])])),
	};
	for (const [name, make] of Object.entries(hostile))
		test(`refuses: ${name}`, async () => {
			fs.mkdirSync(outside(), { recursive: true });
			const shadow = sha256('/etc/shadow');
			const answer = await importBytes('hostile', make());
			assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.bytes}`);
			assert.match(answer.body.detail, /\S/);
			assert.deepEqual(fs.readdirSync(outside()), []);
			assert.ok(!fs.existsSync('/tmp/cloche-escaped'));
			assert.equal(sha256('/etc/shadow'), shadow);
			assert.equal((await cloche.api('GET', '/images/hostile')).status, 404);
			await noLayersLeft();
		});

	test('devices of an image are left out', async () => {
		const answer = await importBytes('devices', tar([...base, { name: 'sda', type: 'block', major: 8, minor: 0, mode: 0o666 }, { name: 'mem', type: 'char', major: 1, minor: 1, mode: 0o666 }]));
		assert.equal(answer.status, 201, String(answer.bytes));
		assert.match((await inImage('devices', 'ls /sda /mem')).stderr, /sda.*\n.*mem|mem.*\n.*sda/);
		await cloche.ok(['image', 'rm', 'devices']);
	});

	test('set-uid bits of an image give nothing', async () => {
		await importBytes('suid', tar([...base, { name: 'su', content: fs.readFileSync('/usr/bin/id'), mode: 0o4755 }]));
		const ran = await inImage('suid', '/su -u', 'agent');
		assert.equal(ran.stdout, '1000\n');
		await cloche.ok(['image', 'rm', 'suid']);
	});

	test('a workspace of the image stays in sight, with its rights', async () => {
		const inside = "stat -c '%u %a %m' /workspace; cat /workspace/*; echo more > /workspace/more; echo $?";
		const cases = [
			[[], '1000 755 /workspace\n', '0\n'], // ours: a mount of its own
			[[{ name: 'workspace/', type: 'dir', mode: 0o755, uid: 1000, gid: 1000 }, { name: 'workspace/notes', content: 'brought along\n', uid: 1000, gid: 1000 }], '1000 755 /\nbrought along\n', '0\n'],
			[[{ name: 'workspace/', type: 'dir', mode: 0o711 }], '0 711 /\n', '2\n'],
		];
		for (const [i, [more, first, last]] of cases.entries()) {
			const answer = await importBytes(`space${i}`, tar([...base, ...more]));
			assert.equal(answer.status, 201, String(answer.bytes));
			const ran = await inImage(`space${i}`, inside, 'agent');
			assert.equal(ran.stdout, first + last, ran.stderr);
			await cloche.ok(['image', 'rm', `space${i}`]);
		}
	});

	// E06: an image that hides traps where the sandbox is built.
	test('links in place of /dev, /proc, /etc, /workspace do not lead anywhere', async () => {
		const pattern = fs.readFileSync('/proc/sys/kernel/core_pattern', 'utf8');
		const traps = ['dev/null', 'dev/console', 'dev/ptmx', 'etc/resolv.conf', 'etc/hosts', 'etc/hostname'].map((name) => ({ name, type: 'symlink', linkname: '/proc/sys/kernel/core_pattern' }));
		const whole = ['proc', 'dev', 'sys', 'workspace', 'home/agent', 'run/cloche', 'tmp'];
		for (const [i, set] of [traps, ...whole.map((name) => [{ name, type: 'symlink', linkname: outside() }])].entries()) {
			const answer = await importBytes(`trap${i}`, tar([...base.filter((entry) => !set.some((one) => entry.name.startsWith(one.name))), ...set]));
			if (answer.status !== 201) continue;
			const ran = await inImage(`trap${i}`, 'echo pwned > /dev/null; echo pwned > /dev/console; echo fine');
			assert.ok(ran.code === 0 ? ran.stdout === 'fine\n' : ran.code >= 64, `${i}: ${ran.code} ${ran.stderr}`);
			for (const one of (await cloche.get('GET', '/sandboxes?state=failed')).items) await cloche.get('DELETE', `/sandboxes/${one.id}`);
			await cloche.ok(['image', 'rm', `trap${i}`]);
		}
		assert.equal(fs.readFileSync('/proc/sys/kernel/core_pattern', 'utf8'), pattern);
		assert.deepEqual(fs.readdirSync(outside()), []);
	});

	test('a run that cannot start leaves nothing', async () => {
		await importBytes('broken', tar([{ name: 'proc', type: 'symlink', linkname: '/tmp' }]));
		const ran = await inImage('broken', 'true');
		assert.equal(ran.code, 125);
		assert.match(ran.stderr, /\/proc/);
		assert.deepEqual((await cloche.get('GET', '/sandboxes')).items.map((one) => one.state), []);
		await cloche.ok(['image', 'rm', 'broken']);
	});

	test('imports run side by side; too many are told to come again', async () => {
		const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((one) => `side-${one}`);
		// Node writes once more after the last byte. If the answer and the end of the connection were faster, it tells of
		// the failed write alone.
		const cut = (error) => (assert.equal(error.code, 'EPIPE'), { body: { code: 'limited' } });
		const answers = await Promise.all(names.map((name) => importBytes(name, tar(base)).catch(cut)));
		const made = names.filter((_, i) => answers[i].status === 201);
		assert.ok(made.length >= 4, String(answers.map((one) => one.status)));
		for (const one of answers) assert.ok(one.status === 201 || one.body.code === 'limited', String(one.bytes));
		for (const name of made) await cloche.ok(['image', 'rm', name]);
	});
});
