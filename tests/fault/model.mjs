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
		this.labels = new Set(['{}']); // as text
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
			absent: ['create', 'create', 'race', 'missing'],
			running: [...'exec exec exec write read count stop rm rename again info'.split(' '), ...'label both later extend listed lose stopBoth'.split(' ')],
			stopped: ['start', 'refusedExec', 'refusedWrite', 'rm', 'rename', 'info', 'label', 'listed', 'again'],
			failed: ['rm', 'start', 'refusedExec', 'info'],
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

	/** Two at once with one name: one gets it. */
	async race(slot) {
		const answers = await Promise.all([1, 2].map(() => this.ask('POST', '/sandboxes', { name: slot.name })));
		const won = answers.filter((answer) => answer?.status === 201);
		assert.ok(won.length <= 1, 'one name, one sandbox');
		for (const answer of answers) assert.ok(isCut(answer) || [201, 409].includes(answer.status), `${answer?.status} ${answer?.bytes}`);
		if (won.length) slot.id = won[0].body.id;
		else assert.ok(answers.some(isCut), 'somebody wins');
		slot.states = new Set(won.length ? ['running'] : ['absent', 'running', 'failed']);
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
		assert.ok(slot.labels.has(JSON.stringify(answer.body.labels ?? {})), `labels ${JSON.stringify(answer.body.labels)}, not ${[...slot.labels]}`);
	}

	async exec(slot) {
		slot.lines[1]++;
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'echo line >> /workspace/log; echo said' });
		if (isCut(answer)) return;
		assert.equal(answer.status, 200, String(answer.bytes));
		assert.equal(answer.body.stdout, 'said\n');
		assert.equal(answer.body.exitCode, 0);
		slot.lines[0]++;
	}

	/** Verbs of one sandbox at the same time. */
	async both(slot) {
		await Promise.all([this.exec(slot), this.write(slot), this.count(slot, 1), this.info(slot)]);
	}

	/** A stop beside a stop and a look: both stops are answered with the end. */
	async stopBoth(slot) {
		slot.states = new Set(['running', 'stopping', 'stopped']);
		const answers = await Promise.all([
			this.ask('POST', `/sandboxes/${slot.id}/stop`, { graceMs: 20 }),
			this.ask('POST', `/sandboxes/${slot.id}/stop`, { graceMs: 10 }),
			this.info(slot),
		]);
		const told = answers.slice(0, 2).filter((answer) => !isCut(answer));
		for (const answer of told) assert.ok(answer.body.state === 'stopped' || answer.status === 409, String(answer.bytes));
		assert.ok(told.length < 2 || told.some((answer) => answer.status === 200), 'one of them stopped it');
		slot.states = new Set(told.some((answer) => answer.status === 200) ? ['stopped'] : ['running', 'stopped']);
		this.afterEnd(slot);
	}

	/** In the background: its end is known later, with its output. */
	async later(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'echo line >> /workspace/log; echo later; exit 7', background: true });
		slot.lines[1]++;
		if (isCut(answer)) return;
		assert.equal(answer.status, 201, String(answer.bytes));
		const route = `/sandboxes/${slot.id}/execs/${answer.body.id}`;
		let exec;
		for (let i = 0; i < 600 && exec?.body?.state !== 'ended'; i++) {
			await sleep(10);
			exec = await this.ask('GET', route);
		}
		assert.deepEqual([exec?.body?.state, exec?.body?.exitCode], ['ended', 7], String(exec?.bytes));
		slot.lines[0]++;
		const output = await this.ask('GET', `${route}/output`);
		if (!isCut(output)) assert.equal(String(output.bytes), 'later\n');
	}

	/** Its keeper dies: it is lost, and says so. */
	async lose(slot) {
		const { keeper } = this.model.daemon.pidsOf(slot.id);
		if (!keeper) return;
		process.kill(keeper, 'SIGKILL');
		slot.states = new Set(['running', 'failed']);
		for (let i = 0; i < 400 && slot.states.has('running'); i++) {
			const answer = await this.ask('GET', `/sandboxes/${slot.id}`);
			if (!isCut(answer) && answer.body.state === 'failed') {
				assert.equal(answer.body.endReason, 'lost');
				slot.states = new Set(['failed']);
			}
			await sleep(25);
		}
		assert.deepEqual([...slot.states], ['failed'], 'it is said to be lost');
		this.afterEnd(slot);
	}

	async label(slot) {
		const labels = { n: String(Math.floor(this.chance() * 1000)) };
		const answer = await this.ask('PATCH', `/sandboxes/${slot.id}`, { labels });
		if (isCut(answer)) return void slot.labels.add(JSON.stringify(labels));
		assert.equal(answer.status, 200, String(answer.bytes));
		slot.labels = new Set([JSON.stringify(labels)]);
	}

	async extend(slot) {
		const answer = await this.ask('PATCH', `/sandboxes/${slot.id}`, { ttl: 3600000 });
		if (!isCut(answer)) assert.ok(Date.parse(answer.body.expiresAt) > Date.now() + 3000000, String(answer.bytes));
	}

	/** The list has it once, as it is. */
	async listed(slot) {
		const answer = await this.ask('GET', '/sandboxes?limit=200');
		if (isCut(answer)) return;
		const found = answer.body.items.filter((row) => row.id === slot.id);
		assert.equal(found.length, 1, 'once in the list');
		assert.ok(slot.states.has(found[0].state), `${found[0].state}, not ${[...slot.states]}`);
	}

	async refusedWrite(slot) {
		const answer = await this.ask('PUT', `/sandboxes/${slot.id}/files?path=/workspace/file`, 'x');
		assert.ok(isCut(answer) || answer.status === 409, `${answer?.status}`);
	}

	async refusedExec(slot) {
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'true' });
		assert.ok(isCut(answer) || answer.status === 409, `${answer?.status}`);
	}

	/** `busy`: commands that add lines at the same time. */
	async count(slot, busy = 0) {
		const least = slot.lines[0];
		const answer = await this.ask('POST', `/sandboxes/${slot.id}/execs`, { shell: 'cat /workspace/log 2>/dev/null | wc -l' });
		if (isCut(answer)) return;
		const found = Number(answer.body.stdout);
		assert.ok(found >= least && found <= slot.lines[1] + busy, `${found} lines, not ${slot.lines}`);
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
		slot.states = new Set(isCut(answer) ? [...slot.states, 'running', 'stopped', 'failed'] : ['running']);
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
