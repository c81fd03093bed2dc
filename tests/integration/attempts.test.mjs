// Every way around a policy that the probe knows (tests/confine), one by one: it fails, nothing of it leaves, and what was
// decided about it is told. The table says for each what is told, or why there is nothing to tell; an attempt that is not
// in it fails the test.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Daemon, Internet, RESOLVER, isRoot, probeBin, repo, until } from './lib.mjs';

const A = '93.184.216.34';
const B = '93.184.216.35';
const A6 = '2606:2800:220:1::34';
const B6 = '2606:2800:220:1::35';

const tcp = (address, port, more) => ({ proto: 'tcp', address, port, ...more });
const udp = (address, port) => ({ proto: 'udp', address, port, rule: 'UDP leaves only under the level full' });
const group = (address, port) => ({ proto: 'udp', address, port, rule: 'multicast and broadcast do not leave a sandbox' });
const socket = (what) => ({ proto: 'socket', address: undefined, host: undefined, program: 'probe', rule: `a sandbox has no ${what}` });
const option = (name) => socket(`socket options of this kind (${name})`);
const dns = (host, more) => ({ proto: 'dns', host, ...more });
const each = (list, make) => list.map((one) => make(one));
const BUSY = 'the sandbox has too many connections';
const NAMED = /the client named other\.test, which did not lead to this address/;

// Why nothing is told.
const CALL = 'the address is taken: there is nothing to decide about';
const NO_PACKET = 'the kernel refuses the call for an address in the memory of the caller before there is a packet: docs/threat-model.md, P2';
const EMPTY = 'answered by the gateway with nothing, or with an error: nothing was decided';
const OWN = 'it is the loopback interface of the sandbox itself';
const WORKS = 'it is allowed';
const ELSEWHERE = 'egress.test.mjs: needs a policy that changes, a cap or a neighbour';

const TABLE = {
	egress: {
		'an address no name led to': [tcp(A, 443, { rule: 'no allowed name led to this address' })],
		'unlisted addresses': each([B, B6, '8.8.8.8', '64:ff9b::808:808', '2002:808:808::1'], (one) => tcp(one, 80)),
		'unlisted ports': each([1, 21, 25, 110, 143, 445, 853, 993, 3128, 3306, 5432, 6379, 8080, 8443, 9999, 65535], (port) => tcp(B, port)),
		'special addresses': each(['169.254.169.254', 'fd00:ec2::254', '10.0.0.5', '172.16.0.1', '192.168.0.1', '100.64.0.1', '100.100.100.200', '240.0.0.1', '198.18.0.1', '192.0.2.1', '64:ff9b::a9fe:a9fe', '2002:a9fe:a9fe::1'], (one) =>
			tcp(one, 80, { rule: /are never reached/ })),
		multicast: each([['224.0.0.251', 5353], ['224.0.0.252', 5355], ['239.255.255.250', 1900], ['ff02::fb', 5353], ['ff05::2', 9999], ['ff0e::1', 53]], ([address, port]) => group(address, port)),
		broadcast: [group('255.255.255.255', 67)],
		'groups no kernel sends to': NO_PACKET,
		'links that are not there': NO_PACKET,
		'the only link': [tcp('fe80::1', 80, { rule: /are never reached/ })],
		'TCP fast open': [tcp(B, 80)],
		datagrams: [A, B, B6].flatMap((one) => each([9999, 443, 123, 5353, 5355, 4500, 853, 8853, 51820], (port) => udp(one, port))),
		'a refused datagram says so': [udp(B, 9999)],
		sendmmsg: [udp(B, 9999)],
		io_uring: [socket('io_uring')],
		'ping socket': [socket('IP sockets but for TCP and UDP (ICMP)')],
		'names by other resolvers': [dns('other.test')],
		'other types': EMPTY,
		'odd questions': EMPTY,
		'a hello for another': [tcp(A, 443, { host: 'other.test', rule: NAMED })],
		'a hello for nobody': [tcp(A, 443, { rule: 'the TLS hello names no host' })],
		'an encrypted hello': [tcp(A, 443, { rule: 'the TLS hello hides its name (ECH)' })],
		'a second hello': [tcp(A, 443, { host: 'other.test', rule: NAMED })],
		'a slow hello works': WORKS,
		'transparent socket': [option('IP_TRANSPARENT')],
		mark: [option('SO_MARK')],
		// alike ones of a second are told as one, so which of the sources is named is not said here
		"a source of one's own choice": [A, B6].flatMap((one) => each(['tcp', 'udp'], (proto) => ({ proto, address: one, port: 80, rule: /^the source (8\.8\.4\.4|127\.0\.0\.1|2001:4860:4860::8844|::1) is not the sandbox's own address$/ }))),
		'source route': [option('IP_OPTIONS')],
		"the gateway's port": CALL,
		'the gateway itself': [tcp('192.0.0.1', 1)],
		'connected anew': [tcp(B, 80)],
		'an address that changes, allowed or not': [tcp(B, 22)],
	},
	flood: {
		'numbers as names': [...each(['1572395043', '0x5db8d823', '0135.0270.0330.043', '93.184.216.35', '93.12114979', '127.1'], (one) => dns(one)), tcp(B, 80)],
		'bound to a device': each(['SO_BINDTODEVICE', 'SO_BINDTOIFINDEX', 'IP_UNICAST_IF', 'IPV6_UNICAST_IF'], option),
		'on the only device': [tcp(B, 80)],
		'odd datagrams': [udp(B, 443)],
		'a datagram elsewhere': [udp(B, 9999)],
		'names over TCP': [dns('other.test')],
		'broken questions': EMPTY,
		'an alias of a denied name': [dns('denied.test', { rule: 'deny denied.test (environment)', address: undefined })],
		'an answer in circles': EMPTY,
		'a flood of questions': [dns('n0.0.unlisted.test'), { rule: /^\d+ more decisions about other hosts are not shown$/, address: undefined }],
		"another's hello in crumbs": [tcp(A, 443, { host: 'other.test', rule: NAMED })],
		'a hello in crumbs works': WORKS,
		'a head without end': [tcp(A, 80, { rule: 'the head of the request is too long' })],
		'routing header': [option('IPV6_RTHDR')],
		'connections that say nothing': [tcp(A, 443, { rule: BUSY })],
		'half a hello each': [tcp(A, 443, { rule: BUSY })],
		'half a request each': [tcp(A, 80, { rule: BUSY })],
		'many that are denied': [tcp(B, 443)],
		'half a call of a service each': EMPTY,
		'half a question each': EMPTY,
		'calls that are refused': [socket('sockets of this family (AF_VSOCK)'), { ...socket('sockets of this family (AF_PACKET)'), count: 1 }],
		'one more in a full house': [tcp(A, 443, { rule: BUSY }), tcp(A, 22, { rule: BUSY })],
	},
	sockets: {
		"host's loopback": OWN,
		"host's loopback, IPv6": OWN,
		"host's loopback, mapped": OWN,
		'an address of the host': [tcp('93.184.1.2', 7070)],
		'other addresses, TCP': each(['192.0.2.1', '198.51.100.7', '169.254.169.254', '10.0.0.1', '172.17.0.1', '192.168.0.1', '100.64.0.1', '2001:db8::1', 'fd00:ec2::254', '64:ff9b::c000:201'], (one) => tcp(one, 80)),
		'other addresses, UDP': EMPTY,
		'only loopback': OWN,
		'own loopback works': WORKS,
	},
	web: {
		'labels below a wildcard': [dns(/\.zone\.test$/, { rule: 'too many new names below a wildcard' })],
		'a name of private addresses': [dns('rebind.test', { rule: 'the name led to an address that is never reached', address: '169.254.169.254' }), tcp('10.0.0.5', 80)],
		'another host in a request': [tcp(A, 80, { host: 'other.test', rule: NAMED })],
		'smuggled requests': [tcp(A, 80, { rule: /this is no HTTP request|two lengths|length and an encoding|two hosts/ })],
		'behind a good request': [tcp(A, 80, { rule: 'the body of the request is malformed' }), tcp(A, 80, { host: 'other.test', rule: NAMED })],
		'cut while open': ELSEWHERE,
		'while the policy changes': ELSEWHERE,
		placeholders: [tcp(A, 80, { rule: 'the placeholder of a service was sent to example.test' })],
		'a placeholder in pieces': [tcp(A, 80, { rule: 'the placeholder of a service was sent to example.test' })],
		'a secret that comes back': ELSEWHERE,
		'a flood from 200 sockets': ELSEWHERE,
		'the ports of a neighbour': ELSEWHERE,
	},
};

/** The attempts of a topic that are about the network, as its source lists them. */
function attempts(topic) {
	const text = fs.readFileSync(path.join(repo, 'tests/confine', `${topic}.c`), 'utf8');
	return [...text.matchAll(/^\t+\{"([A-Z]\d+)", "([^"]+)"/gm)].filter(([, id]) => id[0] === 'X' || (id === 'E16' && topic === 'egress')).map(([, , name]) => name);
}

const fits = (value, wanted) => (wanted instanceof RegExp ? wanted.test(value) : value === wanted);

describe('every attempt, and what is told of it', { skip: isRoot ? false : 'needs root to make network namespaces' }, () => {
	let net, cloche, id;
	before(async () => {
		net = await Internet.start();
		await net.names({
			'example.test': { a: [A], aaaa: [A6] },
			'other.test': { a: [B], aaaa: [B6] },
			'denied.test': { a: [B] },
			'alias.test': { cname: 'denied.test' },
			'*.zone.test': { a: [A] },
			'rebind.test': { a: ['10.0.0.5', '169.254.169.254'], aaaa: ['fd00:ec2::254'] },
			'circle.test': { raw: Buffer.from([0xc0, 0x1d, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34]).toString('base64') },
		});
		cloche = await Daemon.start({ enter: net.enter, config: `[sandboxes.default]\npool = 0\n[network]\nresolvers = ["${RESOLVER}"]\n[services.search]\nupstream = "http://${A}/echo"\n` });
		await cloche.get('POST', '/environments', { name: 'few', allowedDomains: ['example.test', 'alias.test', 'circle.test', 'rebind.test', '*.zone.test'], deniedDomains: ['denied.test'] });
		id = (await cloche.create({ network: 'few' })).id;
		await cloche.ok(['sandbox', 'cp', probeBin(), `${id}:/workspace/probe`]);
		await cloche.exec(id, 'chmod 755 /workspace/probe');
		net.clear();
	});
	after(async () => {
		await cloche?.stop();
		await net?.stop();
	});

	/** Refusals decided since then that were told after event number `seen`. */
	async function refusals(since, seen) {
		const { items } = await cloche.get('GET', `/sandboxes/${id}/events?kind=sandbox.network&limit=1000&after=${seen}`);
		return items.filter((one) => one.data.verdict === 'deny' && Date.parse(one.data.decidedAt) >= since);
	}
	const text = (wanted) => JSON.stringify(wanted, (_, value) => (value instanceof RegExp ? String(value) : value));

	const ARGS = ['name=example.test', `address=${A}`, `other=${B}`, `other6=${B6}`, 'unlisted=other.test', 'alias=alias.test', 'circle=circle.test', 'zone=zone.test', 'rebind=rebind.test', 'races=2000', 'patient=1', 'port=7070'];

	for (const topic of Object.keys(TABLE)) {
		test(`${topic}: the table has every attempt`, () => assert.deepEqual(Object.keys(TABLE[topic]).sort(), attempts(topic).sort()));

		test(`${topic}: each is told`, { timeout: 300000 }, async () => {
			let seen = 0;
			for (const [name, told] of Object.entries(TABLE[topic])) {
				if (told === ELSEWHERE) continue;
				const since = Date.now();
				// this machine's own address: the daemon's namespace has it
				const args = name === 'an address of the host' ? ARGS.map((one) => (one.startsWith('address=') ? 'address=93.184.1.2' : one)) : ARGS;
				const result = await cloche.exec(id, ['/workspace/probe', topic, ...args, `only=${name}`], { timeoutMs: 120000 });
				assert.equal(result.exitCode, 0, result.stdout + result.stderr);
				let events = [];
				for (const wanted of typeof told === 'string' ? [] : told)
					await until(async () => {
						const is = (one) => Object.entries(wanted).every(([key, value]) => fits(one.data[key], value));
						return events.some(is) || (events = await refusals(since, seen)).some(is);
					}, `${name} is told as ${text(wanted)}`, 30000);
				seen = Math.max(seen, ...events.map((one) => one.sandboxSeq));
			}
			assert.deepEqual(net.left().filter((row) => !new RegExp(`^tcp ${A} (22|80|443)$`).test(row)), [], 'nothing left but what is allowed');
			const asked = new Set(['example.test', 'alias.test', 'circle.test', 'rebind.test']);
			assert.deepEqual(net.asked().filter((one) => !asked.has(one) && !one.endsWith('.zone.test')), []);
		});
	}

	test('the same over IPv6', { timeout: 300000 }, async () => {
		const since = Date.now();
		const args = ARGS.map((one) => one.replace('races=2000', 'races=200').replace(`=${A}`, `=${A6}`).replace(`=${B}`, `=${B6}`)).join(' ');
		const result = await cloche.exec(id, `for only in X01 X02 X03 X04 X08 X10 X17 E16; do /workspace/probe egress ${args} only=$only || exit 1; done; for only in X10 X11 X18; do /workspace/probe web ${args} only=$only || exit 1; done`, { timeoutMs: 120000 });
		assert.equal(result.exitCode, 0, result.stdout + result.stderr);
		assert.ok((result.stdout.match(/^held /gm) ?? []).length >= 27, result.stdout);
		// Alike ones of a second are told as one: the rule may be that of another, the destination is not.
		const { "a source of one's own choice": both, ...egress } = TABLE.egress; // which has both families already
		const wanted = [...Object.values(egress), ...['another host in a request', 'smuggled requests', 'placeholders'].map((one) => TABLE.web[one])].filter(Array.isArray).flat()
			.filter((one) => [A, B].includes(one.address)).map(({ proto, address, port, host }) => ({ proto, address: address === A ? A6 : B6, port, ...(host && { host }) }));
		await until(async () => {
			const told = (await refusals(since, 0)).map((one) => one.data);
			return wanted.every((one) => told.some((data) => Object.entries(one).every(([key, value]) => data[key] === value)));
		}, 'each destination is told', 30000);
		assert.deepEqual(net.left().filter((row) => !/^tcp (93\.184\.216\.34|2606:2800:220:1::34) (22|80|443)$/.test(row)), [], 'nothing left but what is allowed');
	});

	test('each kind of socket that is not there is told', async () => {
		const since = Date.now();
		const result = await cloche.exec(id, '/workspace/probe sockets only=E20; status=$?; cat /run/cloche/denials; exit $status');
		assert.equal(result.exitCode, 0, result.stdout + result.stderr);
		const wanted = [
			...['VSOCK', 'PACKET', 'ALG', 'KEY', 'BLUETOOTH', 'XDP', 'TIPC', 'CAN', 'RDS'].map((one) => `sockets of this family (AF_${one})`),
			...['SCTP', 'DCCP', 'SMC', 'L2TP', 'UDP-Lite'].map((one) => `IP sockets but for TCP and UDP (${one})`),
			...['KOBJECT_UEVENT', 'AUDIT', 'NETFILTER', 'GENERIC', 'SOCK_DIAG'].map((one) => `netlink sockets but for routes (${one})`),
			'raw sockets',
		];
		// The line is there before the program sees its error.
		for (const one of wanted) assert.ok(result.stdout.includes(` deny socket by probe[`) && result.stdout.includes(`: a sandbox has no ${one}; use TCP, UDP or local sockets`), `a line about ${one}`);
		await until(async () => {
			const told = (await refusals(since, 0)).filter((one) => one.data.proto === 'socket').map((one) => one.data.rule);
			return wanted.every((one) => told.includes(`a sandbox has no ${one}`));
		}, 'each is an event');
	});

	test('multicast, broadcast and devices have their lines inside, and groups are never allowed', async () => {
		const open = (await cloche.create({ network: 'full', allowCidrs: ['224.0.0.0/4', '255.255.255.255/32'] })).id;
		await cloche.ok(['sandbox', 'cp', probeBin(), `${open}:/workspace/probe`]);
		await cloche.exec(open, 'chmod 755 /workspace/probe');
		const attempt = `for only in multicast broadcast; do /workspace/probe egress ${ARGS.join(' ')} only=$only || exit 1; done; /workspace/probe flood ${ARGS.join(' ')} "only=bound to a device"`;
		for (const box of [id, open]) {
			const result = await cloche.exec(box, attempt);
			assert.equal(result.exitCode, 0, result.stdout + result.stderr);
			const wanted = [
				...['udp 224.0.0.251:5353 (224.0.0.251)', 'udp ff02::fb:5353 (ff02::fb)', 'udp 255.255.255.255:67 (255.255.255.255)'].map((one) => ` deny ${one}: multicast and broadcast do not leave a sandbox; send to the one host that is meant`),
				...['SO_BINDTODEVICE', 'IPV6_UNICAST_IF'].map((one) => `: a sandbox has no socket options of this kind (${one}); leave the option out`),
			];
			// a program that is still there when it is looked for is named
			await until(async () => {
				const { stdout } = await cloche.exec(box, 'cat /run/cloche/denials');
				return wanted.every((one) => stdout.replaceAll(/\) by probe\[\d+\]/g, ')').includes(one));
			}, 'each has its line');
		}
		assert.deepEqual(net.left().filter((row) => /^udp/.test(row)), [], 'nothing left');
		await cloche.get('DELETE', `/sandboxes/${open}?force=1`);
	});

	test('each refusal has a line inside that says what to do', async () => {
		const wanted = /deny dns other\.test.*: no rule allows this name; allow it with --allow other\.test/;
		let stdout = '';
		const attempt = '/workspace/probe egress name=example.test unlisted=other.test "only=names by other resolvers"; cat /run/cloche/denials';
		// Right after a flood of names others are told as a number, and those of one second share a line, which is written at its end.
		await until(async () => wanted.test(({ stdout } = await cloche.exec(id, attempt)).stdout), 'the refusal is told inside');
		for (const line of stdout.split('\n').filter((one) => / deny /.test(one))) assert.match(line, /^\d{4}-\d\d-\d\dT\S+Z deny (tcp|udp|dns|socket) \S+.*: .+$/);
	});
});
