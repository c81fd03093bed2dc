// Random verbs, many at once, against a model: every answer must be one the model allows, whatever
// is killed meanwhile. A verb whose answer was cut off leaves the model with two possibilities,
// which the next look at the sandbox decides.
import assert from 'node:assert/strict';

import { sleep } from '../integration/lib.mjs';
import { HurtDaemon, random } from './lib.mjs';

const WORKERS = 4;
const SLOTS = 3;

/** No promise was made: the connection broke, or the daemon was about to end. */
const isCut = (answer) => answer === null || answer.status === 503;

class Slot {
	constructor(name) {
		this.name = name;
		this.forget();
	}

	forget() {
		this.id = null;
		this.states = new Set(['absent']);
		this.lines = [0, 0]; // of the log: at least, at most
		this.contents = new Set([null]); // of the file
	}
}

class Worker {
	constructor(model, number) {
		this.model = model;
		this.number = number;
		this.chance = random(model.seed * 1000 + number);
		this.names = 0;
		this.slots = Array.from({ length: SLOTS }, () => new Slot(this.newName()));
	}

	newName() {
		return `w${this.number}-${this.names++}`;
	}

	pick(list) {
		return list[Math.floor(this.chance() * list.length)];
	}

	ask(...args) {
		return this.model.daemon.ask(...args);
	}

	/** Decides between the possibilities by looking. */
	async look(slot) {
		let answer;
		do {
			answer = await this.ask('GET', `/sandboxes/${slot.id ?? slot.name}`);
			if (isCut(answer)) await sleep(50);
			else if (answer.status === 200 && !['running', 'stopped', 'failed'].includes(answer.body.state)) {
				await sleep(50);
				answer = null;
			}
		} while (isCut(answer));
		const found = answer.status === 404 ? 'absent' : answer.body.state;
		assert.ok(slot.states.has(found), `${slot.name} is ${found}, not ${[...slot.states]}: ${answer.bytes}`);
		slot.states = new Set([found]);
		if (found === 'absent') {
			slot.forget();
			slot.name = this.newName();
		} else {
			slot.id = answer.body.id;
			slot.name = answer.body.name;
		}
		return found;
	}

	async step() {
		const slot = this.pick(this.slots);
		const state = slot.states.size > 1 ? await this.look(slot) : [...slot.states][0];
		const verbs = {
			absent: ['create', 'create', 'missing'],
			running: ['exec', 'exec', 'exec', 'write', 'read', 'count', 'stop', 'rm', 'rename', 'again', 'info'],
			stopped: ['start', 'refusedExec', 'rm', 'rename', 'info'],
			failed: ['rm'],
		};
		const verb = this.pick(verbs[state]);
		try {
			await this[verb](slot);
		} catch (error) {
			throw new Error(`${verb} ${slot.name} (${state}): ${error.message}`);
		}
		return verb;
	}

	async create(slot) {
		const answer = await this.ask('POST', '/sandboxes', { name: slot.name });
		if (isCut(answer)) {
			// one that was cut off may be undone and kept as failed
			slot.states = new Set(['absent', 'running', 'failed']);
			return;
		}
		assert.equal(answer.status, 201, String(answer.bytes));
		slot.id = answer.body.id;
		slot.states = new Set(['running']);
	}

	async missing(slot) {
		const answer = await this.ask(this.pick(['GET', 'DELETE']), `/sandboxes/${slot.name}`);
		assert.ok(isCut(answer) || answer.status === 404, String(answer?.bytes));
	}

	async again(slot) {
		const answer = await this.ask('POST', '/sandboxes', { name: slot.name });
		assert.ok(isCut(answer) || answer.status === 409, `a second ${slot.name}: ${answer?.status}`);
	}

	async info(slot) {
		const answer = await this.ask('GET', `/sandboxes/${slot.name}`);
		if (isCut(answer)) return;
		assert.equal(answer.body.id, slot.id);
		assert.ok(slot.states.has(answer.body.state), `${answer.body.state}, not ${[...slot.states]}`);
	}

	async exec(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'echo line >> /workspace/log; echo said' });
		slot.lines[1]++;
		if (isCut(answer)) return;
		assert.equal(answer.status, 200, String(answer.bytes));
		assert.equal(answer.body.stdout, 'said\n');
		assert.equal(answer.body.exitCode, 0);
		slot.lines[0]++;
	}

	async refusedExec(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'true' });
		assert.ok(isCut(answer) || answer.status === 409, `${answer?.status}`);
	}

	async count(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'cat /workspace/log 2>/dev/null | wc -l' });
		if (isCut(answer)) return;
		const found = Number(answer.body.stdout);
		assert.ok(found >= slot.lines[0] && found <= slot.lines[1], `${found} lines, not ${slot.lines}`);
	}

	async write(slot) {
		const text = `${this.number}-${Math.floor(this.chance() * 1e9)}-`.repeat(1 + Math.floor(this.chance() * 3000));
		const answer = await this.ask('PUT', `/sandboxes/${slot.id}/files?path=/workspace/file`, text);
		if (isCut(answer)) return void slot.contents.add(text);
		assert.equal(answer.status, 204, String(answer.bytes));
		slot.contents = new Set([text]);
	}

	async read(slot) {
		const answer = await this.ask('GET', `/sandboxes/${slot.id}/files?path=/workspace/file`);
		if (isCut(answer)) return;
		const found = answer.status === 404 ? null : String(answer.bytes);
		assert.ok(slot.contents.has(found), `content of ${found?.length} bytes, not of ${[...slot.contents].map((one) => one?.length)}`);
		// a writer that was cut off may still be at work, so the other possibilities stay
	}

	async stop(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/stop`, { graceMs: 20 });
		if (!isCut(answer)) assert.equal(answer.body.state, 'stopped', String(answer.bytes));
		slot.states = new Set(isCut(answer) ? ['running', 'stopped'] : ['stopped']);
		this.afterEnd(slot);
	}

	/** What is in memory only goes with the run. */
	afterEnd(slot) {
		if (this.model.keepsFiles) return;
		slot.lines[0] = 0;
		slot.contents.add(null);
	}

	async start(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/start`);
		if (!isCut(answer)) assert.equal(answer.body.state, 'running', String(answer.bytes));
		slot.states = new Set(isCut(answer) ? ['running', 'stopped', 'failed'] : ['running']);
		this.afterEnd(slot);
	}

	async rm(slot) {
		const answer = await this.ask('DELETE', `/sandboxes/${slot.id}?force=1`);
		if (isCut(answer)) {
			slot.states = new Set([...slot.states, 'absent']);
			return;
		}
		assert.equal(answer.status, 204, String(answer.bytes));
		slot.forget();
		slot.name = this.newName();
	}

	async rename(slot) {
		const name = this.newName();
		const answer = await this.ask('PATCH', `/sandboxes/${slot.id}`, { name });
		if (isCut(answer)) {
			const { id } = slot;
			await this.look(slot);
			if (slot.id) assert.equal(slot.id, id);
			return;
		}
		assert.equal(answer.status, 200, String(answer.bytes));
		slot.name = name;
	}
}

/** `steps` verbs; a kill every `killEvery` of them. */
export async function model(report, { steps = 20000, killEvery = 250, seed = 1 } = {}) {
	const daemon = await HurtDaemon.start({ pool: 2 });
	const it = { daemon, seed, keepsFiles: false };
	const chance = random(seed + 7);
	const workers = Array.from({ length: WORKERS }, (_, i) => new Worker(it, i));
	const counts = {};
	let done = 0;
	let kills = 0;
	let stopped = false;
	const work = async (worker) => {
		while (done < steps && !stopped) {
			const verb = await worker.step();
			counts[verb] = (counts[verb] ?? 0) + 1;
			done++;
		}
	};
	const hurtAtTimes = async () => {
		for (let next = killEvery; next < steps && !stopped; next += killEvery) {
			while (done < next && !stopped) await sleep(20);
			if (stopped) return;
			const which = chance();
			const { pid } = daemon.daemonProcess();
			if (which < 0.6) process.kill(pid, 'SIGKILL');
			if (which >= 0.4) {
				daemon.child.kill('SIGKILL');
				await daemon.ended;
			}
			kills++;
			await daemon.recover();
		}
	};
	try {
		await Promise.all([...workers.map(work), hurtAtTimes()].map((one) => one.finally(() => {}).catch((error) => ((stopped = true), Promise.reject(error)))));
		for (const worker of workers) for (const slot of worker.slots) if (slot.states.size > 1 || slot.id) await worker.look(slot);
		const rows = await daemon.assertKnown();
		const expected = workers.flatMap((worker) => worker.slots.filter((slot) => slot.id).map((slot) => slot.id));
		assert.deepEqual(rows.map((row) => row.id).sort(), expected.sort(), 'what the model has, and nothing else');
		await daemon.clear();
		await daemon.end();
		report.add(`model, seed ${seed}`, done, ` of ${Object.keys(counts).length} kinds, ${kills} kills`);
	} catch (error) {
		stopped = true;
		report.fail(`model, seed ${seed}, after ${done} steps and ${kills} kills`, new Error(`${error.message}\n${daemon.log.slice(-3000)}`));
	} finally {
		await daemon.discard();
	}
}
