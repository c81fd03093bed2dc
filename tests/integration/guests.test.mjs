// What begins inside a sandbox and ends in the daemon: the API at /run/cloche/api.sock and at
// api.cloche.internal. Where a request comes from gives it no right.
import assert from 'node:assert/strict';
import test from 'node:test';

import { Daemon } from './lib/daemon.mjs';
import { sleep, until } from './lib/http.mjs';

const SOCKET = '/run/cloche/api.sock';
const viaSocket = `curl -sS -m 20 --unix-socket ${SOCKET}`;

async function withDaemon(fn, options) {
	const daemon = await Daemon.start(options);
	try {
		await fn(daemon);
	} finally {
		await daemon.stop();
	}
}

test('the API inside answers what a token allows, and nothing without one', async () => {
	await withDaemon(async (daemon) => {
		const { id } = await daemon.create();
		for (const user of ['root', 'agent', '4321']) {
			const { stdout, stderr } = await daemon.exec(id, `${viaSocket} -w ' %{http_code}' http://localhost/api/v1/me`, { user });
			assert.match(stdout, / 401$/, `${user}: ${stdout} ${stderr}`);
			assert.match(stdout, /unauthorized/);
		}
		// public routes stay public
		assert.match((await daemon.exec(id, `${viaSocket} -w ' %{http_code}' http://localhost/api/v1/health`)).stdout, / 200$/);
		const key = await daemon.key({ name: 'inside', scopes: ['sandboxes:read'] });
		const bearer = `-H 'Authorization: Bearer ${key.secret}'`;
		const me = await daemon.exec(id, `${viaSocket} ${bearer} http://localhost/api/v1/me`);
		const said = JSON.parse(me.stdout);
		assert.equal(said.credential, key.id);
		assert.equal(said.source, `sandbox ${id}`);
		const refused = await daemon.exec(id, `${viaSocket} ${bearer} -w ' %{http_code}' -X POST -d '{}' http://localhost/api/v1/sandboxes`);
		assert.match(refused.stdout, / 403$/);
		const wrong = await daemon.exec(id, `${viaSocket} -H 'Authorization: Bearer sk_live_wrong' -w ' %{http_code}' http://localhost/api/v1/me`);
		assert.match(wrong.stdout, / 401$/);
	});
});

test('api.cloche.internal is the same API, also without any network', async (t) => {
	await withDaemon(async (daemon) => {
		const sandbox = await daemon.create();
		if (sandbox.isolation.egress !== 'tproxy') {
			t.skip('this kernel has no transparent sockets');
			return;
		}
		const { stdout, stderr } = await daemon.exec(sandbox.id, `curl -sS -m 20 -w ' %{http_code}' http://api.cloche.internal/api/v1/me`);
		assert.match(stdout, / 401$/, stderr);
		const other = await daemon.exec(sandbox.id, `curl -sS -m 20 http://api.cloche.internal:8080/`);
		assert.notEqual(other.exitCode, 0, 'no other port of the gateway is served');
	});
});

test('one sandbox has a bounded number of connections, and the API stays reachable', async () => {
	await withDaemon(async (daemon) => {
		const { id } = await daemon.create();
		const many = `
import socket, time
open_ = []
for i in range(200):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect('${SOCKET}')
    except OSError:
        continue
    open_.append(s)
time.sleep(1)
alive = 0
for s in open_:
    s.settimeout(0.05)
    try:
        if s.recv(1) == b'': continue
    except TimeoutError:
        alive += 1
    except OSError:
        continue
print(alive)
`;
		const { stdout, stderr } = await daemon.exec(id, ['python3', '-c', many]);
		assert.ok(Number(stdout) > 0 && Number(stdout) <= 64, `${stdout} ${stderr}`);
		assert.equal((await daemon.api('GET', '/health')).status, 200);
	});
});

test('with the daemon away the keeper answers 503 and when to try again', async () => {
	await withDaemon(async (daemon) => {
		const { id } = await daemon.create();
		const loop = await daemon.get('POST', `/sandboxes/${id}/execs`, {
			shell: `while sleep 0.05; do ${viaSocket} -D - -o /dev/null http://localhost/api/v1/health | tr -d '\\r' | grep -iE '^(HTTP|Retry)'; done`,
			background: true,
		});
		const output = async () => String((await daemon.api('GET', `/sandboxes/${id}/execs/${loop.id}/output`)).bytes);
		await until(async () => /200/.test(await output()), 'the daemon is asked');
		const victim = daemon.daemonProcess();
		// A broker that stands still starts no other daemon: so there is none for as long as we like.
		daemon.child.kill('SIGSTOP');
		process.kill(victim.pid, 'SIGKILL');
		await sleep(1500);
		daemon.child.kill('SIGCONT');
		await until(async () => /503[^\n]*\nRetry-After: 2(.|\n)*200/i.test(await output().catch(() => '')), 'first 503, then the next daemon');
	});
});
