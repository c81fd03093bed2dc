// `cloche run`: what a person tries first.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { withDaemon } from './lib.mjs';

describe('cloche run', () => {
	const cloche = withDaemon({ before, after });

	test('runs a command as agent in a world of its own', async () => {
		const out = await cloche.ok(['run', '--', 'sh', '-c', 'id; pwd; echo $HOME; ls /; head -1 /proc/1/status']);
		assert.match(out, /^uid=1000\(agent\) gid=1000\(agent\) groups=1000\(agent\)$/m);
		assert.match(out, /^\/workspace$/m);
		assert.match(out, /^\/home\/agent$/m);
		assert.match(out, /^usr$/m);
		assert.match(out, /^Name:\t/m);
	});

	test('passes the exit status on', async () => {
		assert.equal((await cloche.cli(['run', '--', 'sh', '-c', 'exit 7'])).code, 7);
		assert.equal((await cloche.cli(['run', '--', '/bin/true'])).code, 0);
	});

	test('a signal is 128 and its number', async () => {
		assert.equal((await cloche.cli(['run', '--', 'sh', '-c', 'kill -TERM $$'])).code, 143);
	});

	test('a missing program is 127, one that cannot be executed 126', async () => {
		const missing = await cloche.cli(['run', '--', '/nonexistent']);
		assert.equal(missing.code, 127, missing.stderr);
		assert.match(missing.stderr, /\/nonexistent/);
		const refused = await cloche.cli(['run', '--', '/etc/passwd']);
		assert.equal(refused.code, 126, refused.stderr);
	});

	test('standard input, output and error stay apart', async () => {
		assert.equal(await cloche.ok(['run', '--', 'cat'], { input: 'hi\n' }), 'hi\n');
		const both = await cloche.cli(['run', '--', 'sh', '-c', 'echo out; echo err >&2']);
		assert.equal(both.stdout, 'out\n');
		assert.equal(both.stderr, 'err\n');
	});

	test('bytes pass unchanged', async () => {
		const bytes = Buffer.from(Array.from({ length: 1 << 16 }, (_, i) => (i * 7 + (i >> 8)) & 255));
		const { stdout } = await cloche.cli(['run', '--', 'cat'], { input: bytes, binary: true });
		assert.ok(bytes.equals(stdout));
	});

	test('out of memory is named', async () => {
		const hog = 'a=bytearray(1)\nwhile True: a.extend(bytes(1<<20))';
		const result = await cloche.cli(['run', '--memory', '64M', '--', 'python3', '-c', hog]);
		assert.equal(result.code, 137, result.stderr);
		assert.match(result.stderr, /out of memory/i);
	});

	test('a timeout is 124 and kills everything', async () => {
		const start = Date.now();
		const result = await cloche.cli(['run', '--timeout', '1s', '--', 'sh', '-c', 'sleep 60 & sleep 60']);
		assert.equal(result.code, 124, result.stderr);
		assert.ok(Date.now() - start < 60000, 'before they would have ended');
	});

	test('is gone afterwards', async () => {
		await cloche.ok(['run', '--', '/bin/true']);
		const { items } = await cloche.get('GET', '/sandboxes');
		assert.deepEqual(items.map((one) => one.state).filter((state) => state !== 'removing'), []);
	});

	test('environment: clean, with what was given', async () => {
		const out = await cloche.ok(['run', '-e', 'CI=1', '-e', 'EMPTY=', '--', 'env'], {
			env: { ...cloche.env, SECRET_OF_HOST: 'canary' },
		});
		const names = out.trim().split('\n').map((line) => line.split('=')[0]);
		assert.match(out, /^CI=1$/m);
		assert.match(out, /^EMPTY=$/m);
		assert.match(out, /^HOME=\/home\/agent$/m);
		assert.match(out, /^PATH=.*\/usr\/bin/m);
		assert.ok(!names.includes('SECRET_OF_HOST'));
		assert.ok(!out.includes('canary'));
	});

	test('--user root is root inside only', async () => {
		const out = await cloche.ok(['run', '--user', 'root', '--', 'sh', '-c', 'id -u; cat /proc/self/uid_map; echo $HOME']);
		const [uid, map, home] = out.trim().split('\n');
		assert.equal(uid, '0');
		assert.notEqual(map.trim().split(/\s+/)[1], '0', 'root inside must not be root outside');
		assert.equal(home, '/root');
	});

	test('tools of the host image work', async () => {
		const script = [
			'set -e',
			'git init -q repo && cd repo && git config user.email a@b && git config user.name a',
			'echo "int main(void){return 42;}" > a.c && git add a.c && git commit -qm one',
			'gcc -o a a.c; ./a && exit 1; test $? = 42',
			'node -e "console.log(6*7)"',
			'python3 -c "print(6*7)"',
		].join('\n');
		const out = await cloche.ok(['run', '--', 'sh', '-c', script]);
		assert.equal(out, '42\n42\n');
	});

	test('a clean /etc without shadow', async () => {
		const out = await cloche.ok(['run', '--', 'sh', '-c', 'ls /etc; cat /etc/passwd; getent hosts localhost; locale 2>/dev/null | head -1']);
		assert.ok(!/^shadow$/m.test(out));
		assert.match(out, /^agent:x:1000:1000/m);
		assert.match(out, /localhost/);
	});

	test('concurrent runs do not meet', async () => {
		const runs = Array.from({ length: 6 }, (_, i) =>
			cloche.ok(['run', '--', 'sh', '-c', `echo ${i} > /workspace/mine; ls /workspace | wc -l; cat /workspace/mine`]),
		);
		assert.deepEqual(await Promise.all(runs), Array.from({ length: 6 }, (_, i) => `1\n${i}\n`));
	});
});
