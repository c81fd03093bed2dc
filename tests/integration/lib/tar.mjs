// Archives made by hand, so that they can be wrong on purpose: tar entries, OCI layouts and
// docker archives.
import crypto from 'node:crypto';

const TYPES = { file: '0', hardlink: '1', symlink: '2', char: '3', block: '4', dir: '5', fifo: '6' };

function octal(value, width) {
	return value.toString(8).padStart(width - 1, '0') + '\0';
}

function header({ name, mode, uid, gid, size, mtime, type, linkname, major = 0, minor = 0 }) {
	const block = Buffer.alloc(512);
	block.write(name, 0, 100, 'latin1');
	block.write(octal(mode, 8), 100);
	block.write(octal(uid, 8), 108);
	block.write(octal(gid, 8), 116);
	if (size >= 8 ** 11) {
		block[124] = 0x80;
		block.writeBigUInt64BE(BigInt(size), 128);
	} else {
		block.write(octal(size, 12), 124);
	}
	block.write(octal(mtime, 12), 136);
	block.write('        ', 148);
	block.write(type, 156);
	block.write(linkname, 157, 100, 'latin1');
	block.write('ustar\0' + '00', 257);
	block.write(octal(major, 8), 329);
	block.write(octal(minor, 8), 337);
	const sum = block.reduce((total, byte) => total + byte, 0);
	block.write(sum.toString(8).padStart(6, '0') + '\0 ', 148);
	return block;
}

const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);

function paxRecords(records) {
	const lines = Object.entries(records).map(([key, value]) => {
		const rest = ` ${key}=${value}\n`;
		let length = Buffer.byteLength(rest) + 1;
		while (Buffer.byteLength(String(length) + rest) !== length) length++;
		return String(length) + rest;
	});
	return Buffer.from(lines.join(''));
}

/**
 * One entry: {name, type, content, mode, uid, gid, linkname, major, minor, size, pax}. `size`
 * overrides the length of content, `pax` adds extended records. Long names use pax records.
 */
export function tarEntry(entry) {
	const content = Buffer.from(entry.content ?? '');
	const pax = { ...entry.pax };
	let name = entry.name;
	let linkname = entry.linkname ?? '';
	if (Buffer.byteLength(name) > 100) {
		pax.path = name;
		name = name.slice(0, 90);
	}
	if (Buffer.byteLength(linkname) > 100) {
		pax.linkpath = linkname;
		linkname = linkname.slice(0, 90);
	}
	const common = { uid: entry.uid ?? 0, gid: entry.gid ?? 0, mtime: entry.mtime ?? 1700000000 };
	const parts = [];
	if (Object.keys(pax).length) {
		const records = paxRecords(pax);
		parts.push(
			header({ ...common, name: 'pax', mode: 0o644, size: records.length, type: 'x', linkname: '' }),
			padded(records),
		);
	}
	parts.push(
		header({
			...common,
			name,
			mode: entry.mode ?? (entry.type === 'dir' ? 0o755 : 0o644),
			size: entry.size ?? content.length,
			type: entry.typeflag ?? TYPES[entry.type ?? 'file'],
			linkname,
			major: entry.major,
			minor: entry.minor,
		}),
		padded(content),
	);
	return Buffer.concat(parts);
}

export const tar = (entries) => Buffer.concat([...entries.map(tarEntry), Buffer.alloc(1024)]);

/** The entries of a tar as [{name, type, size, mode, linkname, content}]. */
export function untar(bytes) {
	const entries = [];
	let pax = {};
	for (let at = 0; at + 512 <= bytes.length; ) {
		const block = bytes.subarray(at, at + 512);
		at += 512;
		if (block.every((byte) => byte === 0)) break;
		const text = (from, length) => block.subarray(from, from + length).toString().replace(/\0.*$/s, '');
		const number = (from, length) =>
			block[from] & 0x80 ? Number(block.readBigUInt64BE(from + length - 8)) : parseInt(text(from, length) || '0', 8);
		const type = text(156, 1) || '0';
		const size = number(124, 12);
		const content = bytes.subarray(at, at + size);
		at += Math.ceil(size / 512) * 512;
		if (type === 'x') {
			for (let rest = content; rest.length; ) {
				const length = parseInt(rest.toString('latin1'), 10);
				const [, key, value] = /^\d+ ([^=]*)=(.*)\n$/s.exec(rest.subarray(0, length).toString());
				pax[key] = value;
				rest = rest.subarray(length);
			}
			continue;
		}
		const prefix = text(345, 155);
		entries.push({
			name: pax.path ?? (prefix ? `${prefix}/${text(0, 100)}` : text(0, 100)),
			type: Object.keys(TYPES).find((key) => TYPES[key] === type) ?? type,
			mode: number(100, 8),
			uid: number(108, 8),
			size,
			linkname: pax.linkpath ?? text(157, 100),
			content,
		});
		pax = {};
	}
	return entries;
}

const digest = (bytes) => 'sha256:' + crypto.createHash('sha256').update(bytes).digest('hex');

/** The entries of an OCI layout over the given layer tars; `damage` may change its files first. */
export function ociLayout(layers, { config = {}, mediaType = 'application/vnd.oci.image.layer.v1.tar', damage } = {}) {
	const blobs = new Map();
	const put = (bytes, type) => {
		blobs.set(digest(bytes), bytes);
		return { mediaType: type, digest: digest(bytes), size: bytes.length };
	};
	const layerRefs = layers.map((layer) => put(layer, mediaType));
	const configRef = put(
		Buffer.from(
			JSON.stringify({
				architecture: 'amd64',
				os: 'linux',
				config,
				rootfs: { type: 'layers', diff_ids: layers.map(digest) },
			}),
		),
		'application/vnd.oci.image.config.v1+json',
	);
	const manifest = put(
		Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: 'application/vnd.oci.image.manifest.v1+json', config: configRef, layers: layerRefs })),
		'application/vnd.oci.image.manifest.v1+json',
	);
	const files = new Map([
		['oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')],
		['index.json', Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [manifest] }))],
	]);
	for (const [name, bytes] of blobs) files.set(`blobs/sha256/${name.slice(7)}`, bytes);
	damage?.(files);
	return files;
}

export const filesAsTar = (files) => tar([...files].map(([name, content]) => ({ name, content })));

/** A `docker save` archive over the given layer tars. */
export function dockerArchive(layers, { config = {}, tag = 'test:latest', damage } = {}) {
	const files = new Map();
	const configBytes = Buffer.from(
		JSON.stringify({ architecture: 'amd64', os: 'linux', config, rootfs: { type: 'layers', diff_ids: layers.map(digest) } }),
	);
	const configName = `${digest(configBytes).slice(7)}.json`;
	files.set(configName, configBytes);
	const names = layers.map((layer, i) => {
		const name = `layer${i}/layer.tar`;
		files.set(name, layer);
		return name;
	});
	files.set('manifest.json', Buffer.from(JSON.stringify([{ Config: configName, RepoTags: [tag], Layers: names }])));
	damage?.(files);
	return filesAsTar(files);
}
