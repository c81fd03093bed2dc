// What the network promises, tried as it is written: every way around an allowed name fails and is told, a tighter policy
// cuts, a learned one fits, the secret of a service is nowhere; then the attacks of tests/confine/web.c, each with its event.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { execFileSync } from 'node:child_process';

import { Daemon, Internet, RESOLVER, cgroupsNamed, isRoot, probeBin, sleep, until } from './lib.mjs';

const A = '93.184.216.34';
const B = '93.184.216.35';
const B6 = '2606:2800:220:1::35';
const SECRET = `sk-${'Vq3'.repeat(10)}-end`;
const CURL = 'curl -sS -m 20 --cacert /tmp/ca.pem';

/** Which of the processes have the text in their memory. */
function remembering(pids, text) {
	const wanted = Buffer.from(text);
	return pids.filter((pid) => {
		let maps;
		try {
			maps = fs.readFileSync(`/proc/${pid}/maps`, 'utf8');
		} catch {
			return false; // it ended
		}
		const mem = fs.openSync(`/proc/${pid}/mem`, 'r');
		try {
			return maps.split('\n').some((line) => {
				const [, from, to, mode] = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line) ?? [];
				if (!mode?.startsWith('rw')) return false; // what is written to memory is in what can be written
				const size = parseInt(to, 16) - parseInt(from, 16);
				if (size > 2 ** 28) return false; // reserved, not filled
				const bytes = Buffer.alloc(size);
				try {
					fs.readSync(mem, bytes, 0, size, BigInt(`0x${from}`));
				} catch {
					return false;
				}
				return bytes.includes(wanted);
			});
		} finally {
			fs.closeSync(mem);
		}
	});
}

describe('the network, as promised', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let net;
	let cloche;
	let folder;
	before(async () => {
		net = await Internet.start();
		await net.names({
			'example.test': { a: [A], aaaa: ['2606:2800:220:1::34'] },
			'other.test': { a: [B], aaaa: [B6] },
			'learn.test': { a: ['93.184.216.36'] },
			'zone.test': { a: [A] },
			'*.zone.test': { a: [A] },
			'rebind.test': { a: ['10.0.0.5', '169.254.169.254'], aaaa: ['fd00:ec2::254'] },
		});
		cloche = new Daemon({ enter: net.site.pid, env: { CLOCHE_EGRESS_SECRET: SECRET } });
		folder = cloche.folder;
		fs.writeFileSync(path.join(folder, 'secret'), `${SECRET}\n`, { mode: 0o644 });
		cloche.configure(`[sandboxes.default]
pool = 0
[network]
resolvers = ["${RESOLVER}"]
[services.search]
upstream = "http://${A}/echo"
headers = ["Authorization: Bearer {secret}"]
secret = "file:${folder}/secret"
[services.env]
upstream = "http://${A}/echo"
headers = ["Authorization: Bearer {secret}"]
secret = "env:CLOCHE_EGRESS_SECRET"
`);
		await cloche.serve();
	});
	after(async () => {
		await cloche?.stop();
		await net?.stop();
	});

	const decisions = async (id) => (await cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.network&limit=1000`)).items;
	const matches = (one, wanted) => Object.entries(wanted).every(([key, value]) => (value instanceof RegExp ? value.test(one[key]) : one[key] === value));
	const decided = (id, wanted) => until(async () => (await decisions(id)).map((one) => one.data).find((one) => matches(one, wanted)), `a decision ${Object.entries(wanted)}`);

	/** A sandbox with the CA and the probe in it. */
	async function box(body) {
		const { id } = await cloche.create(body);
		await cloche.exec(id, `cat > /tmp/ca.pem <<"END"\n${net.ca}END`);
		await cloche.ok(['sandbox', 'cp', probeBin(), `${id}:/workspace/probe`]);
		await cloche.exec(id, 'chmod 755 /workspace/probe');
		net.clear();
		return id;
	}

	/** Runs attempts of a topic, which all must hold. */
	async function probe(id, topic, args, options = {}) {
		const result = await cloche.exec(id, ['/workspace/probe', topic, ...args], { timeoutMs: 120000, ...options });
		assert.equal(result.exitCode, 0, result.stdout + result.stderr);
		return result.stdout;
	}

	test('an allowed name is reached; every way around it fails, each with a decision', async () => {
		const seen = new Set();
		const run = (line) => cloche.cli(['run', '--allow', 'example.test', '-e', `CA=${net.ca}`, '--', 'sh', '-c', `echo "$CA" > /tmp/ca.pem; ${line}`]);
		net.clear();
		const good = await run(`${CURL} https://example.test`);
		assert.equal(good.code, 0, good.stderr);
		assert.equal(JSON.parse(good.stdout).host, 'example.test');
		net.clear();
		const ask = `node -e 'const { Resolver } = require("dns"); const r = new Resolver({ timeout: 2000, tries: 1 }); r.setServers(["8.8.8.8"]); r.resolve4("other.test", (e) => process.exit(e ? 1 : 0));'`;
		const ways = [
			[`${CURL} https://other.test`, { proto: 'dns', host: 'other.test', program: 'curl' }],
			[`${CURL} --resolve other.test:443:${B} https://other.test`, { proto: 'tcp', address: B, port: 443 }],
			[`${CURL} --resolve example.test:443:${B} https://example.test`, { proto: 'tcp', address: B, port: 443 }],
			[`${CURL} -k https://${A}`, { proto: 'tcp', address: A, port: 443 }],
			[ask, { proto: 'dns', host: 'other.test' }],
			[`env -u http_proxy -u https_proxy -u all_proxy -u no_proxy ${CURL} --noproxy '*' https://other.test`, { proto: 'dns', host: 'other.test' }],
			[`http_proxy=http://${B}:3128 https_proxy=http://${B}:3128 ${CURL} https://example.test`, { proto: 'tcp', address: B, port: 3128 }],
			[`${CURL} -6 -k -g 'https://[${B6}]'`, { proto: 'tcp', address: B6, port: 443 }],
		];
		for (const [line, wanted] of ways) {
			const bad = await run(line);
			assert.notEqual(bad.code, 0, line);
			const event = await until(
				async () =>
					(await cloche.get('GET', '/events?limit=1000')).items.find((one) => one.kind === 'sandbox.network' && !seen.has(one.seq) && one.data.verdict === 'deny' && matches(one.data, wanted)),
				`a decision for ${line}`,
				10000,
			);
			assert.ok(event.data.rule && event.data.remedy, JSON.stringify(event));
			seen.add(event.seq);
		}
		assert.deepEqual(net.left(), [], 'not a packet left');
		assert.deepEqual(net.asked(), []);
	});

	test('a static program fares no better, and is named', async () => {
		const id = await box({ allow: ['example.test'] });
		const args = ['name=example.test', `address=${A}`, `other=${B}`, `other6=${B6}`, 'unlisted=other.test'];
		await probe(id, 'egress', [...args, 'only=unlisted addresses']);
		await probe(id, 'egress', [...args, 'only=names by other resolvers']);
		await decided(id, { verdict: 'deny', proto: 'tcp', address: B, port: 80, program: 'probe' });
		await decided(id, { verdict: 'deny', proto: 'dns', host: 'other.test', program: 'probe' });
		assert.deepEqual(net.left(), []);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('decisions are there within a second, for those who follow, too', async () => {
		const id = await box({ allow: ['example.test'] });
		const feed = await cloche.events(`/sandboxes/${id}/events`);
		const begun = Date.now();
		const { exitCode } = await cloche.exec(id, `${CURL} https://other.test; date +%s%3N > /tmp/at; exit 1`);
		assert.equal(exitCode, 1);
		let event;
		do event = JSON.parse((await feed.next()).data);
		while (event.kind !== 'sandbox.network');
		feed.close();
		assert.equal(event.data.host, 'other.test');
		assert.ok(new Date(event.at ?? event.time ?? Date.now()) - begun < 3000);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('a policy tightened in the middle of a download cuts it', async () => {
		const id = await box({ allow: ['example.test'] });
		const exec = await cloche.get('POST', `/sandboxes/${id}/execs`, { shell: `${CURL} -m 60 -N https://example.test/drip`, background: true });
		await decided(id, { verdict: 'allow', host: 'example.test', port: 443 });
		await sleep(300);
		assert.match(await cloche.ok(['sandbox', 'net', 'set', id, '--network', 'none', '--clear']), /generation: +2/);
		const end = await until(async () => {
			const now = await cloche.get('GET', `/sandboxes/${id}/execs/${exec.id}`);
			return now.state === 'ended' && now;
		}, 'the download ends', 5000);
		assert.notEqual(end.exitCode, 0);
		await decided(id, { verdict: 'deny', host: 'example.test', rule: 'a newer policy forbids this connection' });
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('a learned policy replays without a denial', async () => {
		const work = `${CURL} https://learn.test && ${CURL} http://example.test && ${CURL} http://example.test:8080`;
		const record = await box({ networkMode: 'record' });
		assert.equal((await cloche.exec(record, work)).exitCode, 0);
		assert.match(await cloche.ok(['env', 'learn', record, '--name', 'replay']), /learn\.test +443 +tcp +1/);
		const replay = await box({ network: 'replay' });
		assert.equal((await cloche.exec(replay, work)).exitCode, 0);
		await decided(replay, { verdict: 'closed', port: 8080 });
		assert.deepEqual((await decisions(replay)).filter((one) => one.data.verdict === 'deny'), []);
		for (const id of [record, replay]) await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('the secret of a service is found nowhere', async () => {
		await cloche.ok(['service', 'add', 'sealed', `http://${A}/echo`, '-H', 'Authorization: Bearer {secret}', '--secret', '-'], { input: SECRET });
		const id = await box({ network: 'none' });
		// A program that keeps all it was answered, in memory and in a file.
		const keep = `node -e '
			const http = require("http"), fs = require("fs"), kept = [];
			for (const name of ["search", "env", "sealed"])
				http.get({ host: name + ".cloche.internal", headers: { "X-Key": "cloche_placeholder_" + name } }, (r) => { kept.push(r.headers); r.on("data", (d) => { kept.push(d); fs.appendFileSync("/workspace/kept", d); }); });
			setTimeout(() => console.log(kept.length), 60000);'`;
		await cloche.get('POST', `/sandboxes/${id}/execs`, { shell: keep, background: true });
		const kept = await until(async () => {
			const { stdout } = await cloche.exec(id, 'cat /workspace/kept 2>/dev/null; true');
			return stdout.split('authorization').length === 4 && stdout;
		}, 'three answers');
		assert.match(kept, /Bearer \*{30}/);
		assert.ok(!kept.includes(SECRET));
		const pids = [...new Set(cgroupsNamed([id]).flatMap((group) => fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)))];
		assert.ok(pids.length >= 4, `keeper, init and the program are there: ${pids}`);
		assert.ok(remembering([process.pid], SECRET).length === 1, 'the search finds what is there');
		assert.deepEqual(remembering(pids, SECRET), [], 'in the memory of the sandbox or of its keeper');
		const inside = await cloche.exec(id, `grep -rlaF 'sk-Vq3Vq3' / --exclude-dir=proc --exclude-dir=usr 2>/dev/null; cat /proc/[0-9]*/environ 2>/dev/null | grep -aF sk-Vq3Vq3Vq3; true`, { user: 'root' });
		assert.equal(inside.stdout, '');
		assert.equal(execFileSync('sh', ['-c', 'grep -rlaF -e "$0" "$1" || true', SECRET, cloche.state]).toString(), '', 'in the state directory');
		assert.ok(!cloche.log.includes(SECRET), 'in the log');
		assert.ok(!String((await cloche.api('GET', '/events?limit=1000')).bytes).includes(SECRET), 'in the events');
		const calls = (await cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.service&limit=100`)).items;
		assert.equal(calls.length, 3);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	const ARGS = ['name=example.test', `address=${A}`, `other=${B}`, 'unlisted=other.test'];

	test('X06, X07, X10, X11, X18: names and requests that say more than they may', async () => {
		const id = await box({ allow: ['example.test', 'rebind.test', '*.zone.test'] });
		await probe(id, 'web', [...ARGS, 'zone=zone.test', 'rebind=rebind.test']);
		assert.deepEqual(net.log.filter((row) => row.web && row.web !== 'example.test'), []);
		assert.deepEqual(net.left().filter((row) => row !== `tcp ${A} 80`), []);
		for (const wanted of [
			{ proto: 'dns', rule: 'too many new names below a wildcard' },
			{ host: 'rebind.test', rule: 'the name led to an address that is never reached' },
			{ host: 'other.test', port: 80, rule: /did not lead to this address/ },
			{ port: 80, rule: /two hosts|two lengths|length and an encoding|malformed|no HTTP/ },
			{ host: 'example.test', port: 80, rule: 'the placeholder of a service was sent to example.test' },
		])
			await decided(id, { verdict: 'deny', ...wanted });
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('requests sent in one piece are answered, every one', async () => {
		const id = await box({ allow: ['example.test'] });
		const send = `node -e '
			const s = require("net").connect(80, "example.test"); let seen = "";
			s.on("data", (d) => { seen += d; if (seen.split("200 OK").length === 31) { console.log("all"); process.exit(0); } });
			s.write("GET / HTTP/1.1\\r\\nHost: example.test\\r\\n\\r\\n".repeat(30)); setTimeout(() => process.exit(1), 10000);'`;
		const result = await cloche.exec(id, send);
		assert.equal(result.stdout, 'all\n', result.stderr);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('X18 under the level full: a placeholder goes nowhere in plain text', async () => {
		const id = await box({ network: 'full' });
		for (const url of [`http://${A}/`, `http://${A}:8080/`, `http://other.test/`]) {
			assert.notEqual((await cloche.exec(id, `${CURL} -H 'X-Key: cloche_placeholder_search' ${url}`)).exitCode, 0, url);
			assert.notEqual((await cloche.exec(id, `${CURL} -d 'key=cloche_placeholder_search' ${url}`)).exitCode, 0, url);
		}
		assert.deepEqual(net.log.filter((row) => row.web), []);
		await decided(id, { verdict: 'deny', host: 'other.test', rule: /placeholder of a service was sent to other\.test/ });
		assert.equal((await cloche.exec(id, `${CURL} http://other.test/`)).exitCode, 0);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('X19: what a service repeats is masked', async () => {
		const id = await box({ network: 'none' });
		const said = await probe(id, 'web', ['echo=search']);
		assert.ok(!said.includes(SECRET));
		assert.match(said, /"authorization":"Bearer \*+"/);
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('X14, X15: policies that change', async () => {
		const id = await box({ allow: ['example.test'] });
		const exec = await cloche.get('POST', `/sandboxes/${id}/execs`, { argv: ['/workspace/probe', 'web', ...ARGS, 'hold=1'], background: true });
		const output = async (which) => String((await cloche.api('GET', `/sandboxes/${id}/execs/${which.id}/output`)).bytes);
		const end = (which) => until(async () => (await cloche.get('GET', `/sandboxes/${id}/execs/${which.id}`)).state === 'ended', 'the attempt ends');
		await until(async () => /^open$/m.test(await output(exec)), 'a connection is open');
		await cloche.get('PUT', `/sandboxes/${id}/network`, { network: 'none', allow: ['learn.test'] });
		await end(exec);
		assert.match(await output(exec), /held X14/);
		await decided(id, { verdict: 'deny', rule: 'a newer policy forbids this connection' });

		const rules = new Map();
		await cloche.get('PUT', `/sandboxes/${id}/network`, { network: 'none', allow: ['example.test'] });
		rules.set(3, A);
		const race = await cloche.get('POST', `/sandboxes/${id}/execs`, { argv: ['/workspace/probe', 'web', ...ARGS, 'changing=4'], background: true });
		for (let i = 0; i < 16; i++) {
			const host = i % 2 ? 'example.test' : 'other.test';
			const { networkPolicy } = await cloche.get('PUT', `/sandboxes/${id}/network`, { network: 'none', allow: [host] });
			rules.set(networkPolicy.generation, i % 2 ? A : B);
			await sleep(100);
		}
		await end(race);
		assert.match(await output(race), /held X15/, await output(race));
		const allowed = (await decisions(id)).map((one) => one.data).filter((one) => one.verdict === 'allow' && one.generation >= 3);
		assert.ok(allowed.length > 4);
		for (const one of allowed) assert.equal(one.address, rules.get(one.generation), JSON.stringify(one));
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('X20: a cap on bytes holds against 200 sockets', async () => {
		const CAP = 5000000;
		await cloche.get('POST', '/environments', { name: 'capped', allowedDomains: ['example.test'], egressBytes: CAP });
		const id = await box({ network: 'capped' });
		await probe(id, 'web', [...ARGS, 'flood=1']);
		await decided(id, { verdict: 'deny', rule: 'the sandbox has sent all the bytes it may' });
		const { meters } = await cloche.get('GET', `/sandboxes/${id}`);
		assert.ok(meters.netSentBytes <= CAP * 1.02 && meters.netSentBytes >= CAP * 0.98, JSON.stringify(meters));
		await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});

	test('X21: no sandbox is open to another, nor to what is around it', async () => {
		const [one, two] = [await box({ network: 'full' }), await box({ network: 'full' })];
		await cloche.get('POST', `/sandboxes/${one}/execs`, { background: true, shell: `node -e 'require("net").createServer((s) => s.end("mine")).listen(8081, "::"); setTimeout(() => {}, 60000)'` });
		await until(async () => (await cloche.exec(one, 'curl -s telnet://127.0.0.1:8081 </dev/null')).stdout === 'mine', 'it listens');
		await probe(two, 'web', ['neighbour=8081']);
		for (const address of ['93.184.1.2', '192.0.0.1']) await decided(two, { verdict: 'deny', proto: 'tcp', address, port: 8081 });
		// From the machine's side and from beyond it: nobody listens there.
		for (const child of [net.site, net.world])
			assert.throws(() => execFileSync('nsenter', ['-t', String(child.pid), '-n', 'curl', '-s', '-m', '3', 'http://93.184.1.2:8081/'], { stdio: 'pipe' }));
		for (const id of [one, two]) await cloche.get('DELETE', `/sandboxes/${id}?force=true`);
	});
});
