// The servers of the test internet; run inside its namespace, where every address is local. Says on
// stdout, as JSON lines, what reached it; takes names on stdin.
import dgram from 'node:dgram';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';

const folder = process.argv[2];
const say = (row) => process.stdout.write(`${JSON.stringify(row)}\n`);
const plain = (address) => address?.replace(/^::ffff:/, '');

// --- web ---

function answer(request, response) {
	const to = plain(request.socket.localAddress);
	const url = new URL(request.url.startsWith('/') ? `http://x${request.url}` : request.url);
	say({ web: request.headers.host, to, port: request.socket.localPort, path: request.url, sni: request.socket.servername });
	if (url.pathname === '/big') {
		let left = Number(url.searchParams.get('bytes'));
		const block = Buffer.alloc(65536, 'x');
		response.writeHead(200, { 'content-length': left });
		const more = () => {
			while (left > 0) {
				const part = block.subarray(0, Math.min(left, block.length));
				left -= part.length;
				if (!response.write(part)) return response.once('drain', more);
			}
			response.end();
		};
		more();
	} else if (url.pathname === '/drip') {
		response.writeHead(200);
		const timer = setInterval(() => response.write('drip\n'), 50);
		response.on('close', () => clearInterval(timer));
	} else if (url.pathname.startsWith('/echo')) {
		response.end(JSON.stringify(request.headers));
	} else {
		let bytes = 0;
		request.on('data', (part) => (bytes += part.length));
		request.on('end', () => response.end(JSON.stringify({ host: request.headers.host, to, bytes })));
		request.on('error', () => {});
	}
}

function upgrade(request, socket) {
	say({ web: request.headers.host, to: plain(socket.localAddress), port: socket.localPort, upgrade: request.headers.upgrade });
	socket.on('error', () => {});
	socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
	socket.on('data', (part) => socket.write(part));
}

const tls = { key: fs.readFileSync(path.join(folder, 'server.key')), cert: fs.readFileSync(path.join(folder, 'server.pem')) };
const servers = [];
const listen = (server, port) => {
	server.on('clientError', (_, socket) => socket.destroy());
	server.on('upgrade', upgrade);
	servers.push(new Promise((resolve) => server.listen(port, '::', 4096, resolve)));
};
for (const port of [80, 8080]) listen(http.createServer(answer), port);
for (const port of [443, 8443]) listen(https.createServer(tls, answer), port);

// --- anything else over TCP: says hello first, and what it hears ---

for (const port of [22, 25, 853, 3128, 5432, 9999])
	listen(
		net.createServer((socket) => {
			const to = plain(socket.localAddress);
			say({ tcp: to, port });
			socket.on('error', () => {});
			socket.write(`hello from ${to} ${port}\n`);
			socket.on('data', (part) => socket.write(part));
		}),
		port,
	);

// --- UDP: an echo at some addresses ---

for (const [address, kind] of [['93.184.216.34', 'udp4'], ['2606:2800:220:1::34', 'udp6']])
	for (const port of [443, 9999]) {
		const socket = dgram.createSocket(kind);
		socket.on('message', (bytes, from) => {
			say({ udp: address, port, bytes: bytes.length });
			socket.send(bytes, from.port, from.address);
		});
		servers.push(new Promise((resolve) => socket.bind(port, address, resolve)));
	}

// --- names ---

const zone = {};
const RESOLVER = '93.184.216.53';

function readQuestion(bytes) {
	const labels = [];
	let at = 12;
	while (bytes[at]) {
		labels.push(bytes.toString('latin1', at + 1, at + 1 + bytes[at]));
		at += bytes[at] + 1;
	}
	return { name: labels.join('.').toLowerCase(), type: bytes.readUInt16BE(at + 1), end: at + 5 };
}

const ipv6 = (text) => {
	const [head, tail = ''] = text.split('::');
	const left = head ? head.split(':') : [];
	const right = tail ? tail.split(':') : [];
	const all = [...left, ...Array(8 - left.length - right.length).fill('0'), ...right];
	return Buffer.from(all.flatMap((part) => [parseInt(part, 16) >> 8, parseInt(part, 16) & 255]));
};

function find(name) {
	if (zone[name]) return zone[name];
	const star = Object.keys(zone).find((key) => key.startsWith('*.') && name.endsWith(key.slice(1)));
	return zone[star];
}

const wire = (name) => Buffer.concat([...name.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])), Buffer.from([0])]);

function record(type, ttl, data, owner = Buffer.from([0xc0, 0x0c])) {
	const head = Buffer.alloc(10);
	head.writeUInt16BE(type, 0);
	head.writeUInt16BE(1, 2);
	head.writeUInt32BE(ttl, 4);
	head.writeUInt16BE(data.length, 8);
	return Buffer.concat([owner, head, data]);
}

function reply(bytes, over) {
	const { name, type, end } = readQuestion(bytes);
	const entry = find(name);
	say({ query: name, type, over });
	const ttl = entry?.ttl ?? 60;
	const flip = entry?.flip && (entry.asked = (entry.asked ?? 0) + 1) > 1 ? entry.flip : entry?.a;
	const records = [];
	// An alias: the records that follow are its own. `raw` (base64) takes the place of all records.
	if (entry?.cname) records.push(record(5, ttl, wire(entry.cname)), ...[...(find(entry.cname)?.a ?? [])].map((text) => record(1, ttl, Buffer.from(text.split('.').map(Number)), wire(entry.cname))));
	if (entry?.raw) records.push(Buffer.from(entry.raw, 'base64'));
	if (type === 1) for (const text of flip ?? []) records.push(record(1, ttl, Buffer.from(text.split('.').map(Number))));
	if (type === 28) for (const text of entry?.aaaa ?? []) records.push(record(28, ttl, ipv6(text)));
	if (type === 16 && entry?.txt) records.push(record(16, ttl, Buffer.concat([Buffer.from([entry.txt.length]), Buffer.from(entry.txt)])));
	const cut = over === 'udp' && entry?.truncate;
	const head = Buffer.from(bytes.subarray(0, end));
	head.writeUInt16BE(0x8180 | (entry ? 0 : 3) | (cut ? 0x200 : 0), 2);
	head.writeUInt16BE(cut ? 0 : records.length, 6);
	head.writeUInt32BE(0, 8);
	return Buffer.concat(cut ? [head] : [head, ...records]);
}

const names = dgram.createSocket('udp4');
names.on('message', (bytes, from) => {
	const { name } = readQuestion(bytes);
	if (!find(name)?.silent) names.send(reply(bytes, 'udp'), from.port, from.address);
	else say({ query: name, silent: true });
});
servers.push(new Promise((resolve) => names.bind(53, RESOLVER, resolve)));
listen(
	net.createServer((socket) => {
		let rest = Buffer.alloc(0);
		socket.on('error', () => {});
		socket.on('data', (part) => {
			rest = Buffer.concat([rest, part]);
			while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
				const bytes = reply(rest.subarray(2, 2 + rest.readUInt16BE(0)), 'tcp');
				const size = Buffer.alloc(2);
				size.writeUInt16BE(bytes.length);
				socket.write(Buffer.concat([size, bytes]));
				rest = rest.subarray(2 + rest.readUInt16BE(0));
			}
		});
	}),
	53,
);

readline.createInterface({ input: process.stdin }).on('line', (line) => {
	const { zone: more, mark } = JSON.parse(line);
	Object.assign(zone, more);
	say({ mark });
});

await Promise.all(servers);
say({ ready: true });
