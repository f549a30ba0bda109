import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { CodeRun, Sandbox, SandboxId } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { PROGRAMS, type ProcessName } from '@cloche/setup';
import { eventually } from '@cloche/testkit/eventually';
import type { Answer } from '../support/api.ts';
import { sameWithEachRuntime } from '../support/claims.ts';
import { type HeldStep, HeldSteps, PAUSE_STEPS, WAKE_STEPS } from '../support/held-steps.ts';
import { describeGrowth, hostFootprint } from '../support/host-footprint.ts';
import { COUNT, PausedSandbox } from '../support/paused-sandbox.ts';
import { type OwnService, testService } from '../support/service.ts';

const steps = new HeldSteps();
let service: OwnService;
before(async () => {
  const programs = { ...PROGRAMS, server: 'e2e/support/held-server.ts', hostd: 'e2e/support/held-hostd.ts' };
  // No pool: a test counts what is on the host.
  service = await testService({ CLOCHE_POOL_SIZE: '0', ...steps.env }, undefined, { programs });
});
after(async () => {
  steps.release();
  await service?.close();
  steps[Symbol.dispose]();
});

const path = (id: string) => `/v1/sandboxes/${id}`;
const get = async (id: string): Promise<Sandbox> => (await service.api.get(path(id))).body.sandbox;
async function pause(id: string, request: object = {}): Promise<Sandbox> {
  const { status, body } = await service.api.post(`${path(id)}/pause`, request);
  assert.equal(status, 200, JSON.stringify(body));
  return body.sandbox;
}

describe('a paused sandbox on a real host', () => {
  it('a paused sandbox on a real host stands still, and goes on with its variables and processes', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'kept = 41');
    await service.api.post(`${path(id)}/commands`, { command: ['python3', '-c', COUNT], background: true });
    const counted = async () => JSON.parse((await service.api.run(id, "print(open('/tmp/counted').read())")).stdout);
    await eventually(async () => (await counted().catch(() => [0]))[0] > 0);
    const paused = await pause(id);
    assert.deepEqual([paused.status, paused.paused?.memory], ['idle', 'kept']);
    await delay(1_000);
    const { body } = await service.api.post(`${path(id)}/resume`, {});
    assert.equal(body.sandbox.paused, undefined);
    const [first, gap] = await counted();
    assert.ok(gap >= 0.9, `it stood still for ${gap} of 1.0 seconds`);
    await eventually(async () => (await counted())[0] > first);
    assert.equal((await service.api.run(id, 'kept + 1')).outputs[0]?.value, '42');
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host is kept over a restart of the server and of hostd', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'kept = 42');
    const paused = await pause(id);
    await service.kill('server');
    await service.restart('hostd');
    await service.restart('server');
    assert.deepEqual(await get(id), paused);
    // Longer than a server that is alone waits for a silent agent.
    await delay(1_000);
    const run = await service.api.run(id, 'kept');
    assert.deepEqual([run.outputs[0]?.value, run.stateLost], ['42', undefined]);
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host is woken by no client that had a stream, and each goes on after the wake with nothing lost', async () => {
    const { id } = await service.api.readySandbox();
    const sandbox = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
    const command = await sandbox.commands.start([
      'bash',
      '-c',
      'for ((i = 0; i < 500; i++)); do echo $i; sleep 0.01; done',
    ]);
    const [isBegun, isWatching] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const pauses = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const printed = (async () => {
      let text = '';
      for await (const { data } of command.logs({ onPaused: pauses[0].resolve })) {
        isBegun.resolve();
        text += data;
      }
      return text;
    })();
    const watch = sandbox.files.watch('/workspace', { onOpen: isWatching.resolve, onPaused: pauses[1].resolve });
    const change = watch.next();
    // The types of Node lack its option for headers.
    const headers = { headers: { authorization: `Bearer ${service.apiKey}` } } as unknown as string[];
    const terminal = new WebSocket(`${service.url.replace('http', 'ws')}${path(id)}/pty`, headers);
    await Promise.all([once(terminal, 'message'), isWatching.promise, isBegun.promise]);
    const closed = once(terminal, 'close');
    await pause(id);
    await Promise.all(pauses.map(({ promise }) => promise));
    const [{ code, reason }] = await closed;
    assert.deepEqual([code, reason], [4410, 'sandbox_paused']);
    // Longer than a client waits before it tries again.
    await delay(2_000);
    assert.ok((await get(id)).paused, 'nothing has woken it');
    await service.api.post(`${path(id)}/resume`, {});
    assert.equal(await printed, Array.from({ length: 500 }, (_, line) => `${line}\n`).join(''));
    assert.deepEqual((await change).value, { type: 'overflow', data: {} });
    await watch.return();
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host is destroyed at once', async () => {
    const { id } = await service.api.readySandbox();
    await pause(id);
    const startedAt = performance.now();
    assert.equal((await service.api.delete(path(id))).body.sandbox.status, 'destroyed');
    assert.ok(performance.now() - startedAt < 5_000);
  });
});

describe('a sandbox on a real host whose memory is dropped', () => {
  const DROP = { memory: 'drop' };

  it('idle/P6: a sandbox on a real host whose memory is dropped is booted from its files for a run, which says that the state is lost', async () => {
    const { id } = await service.api.readySandbox({ networkPolicy: { mode: 'deny-all' }, env: { COLOUR: 'red' } });
    const first = await service.api.run(id, "kept = 41; open('kept', 'w').write('whole')");
    const { command } = (
      await service.api.post(`${path(id)}/commands`, { command: ['sleep', '300'], background: true })
    ).body;
    const paused = await pause(id, DROP);
    assert.deepEqual(
      [paused.status, paused.paused?.memory, paused.paused?.place, paused.paused?.lostReason],
      ['idle', 'lost', 'disk', 'asked'],
    );
    const killed = (await service.api.get(`${path(id)}/commands/${command.id}`)).body.command;
    assert.deepEqual([killed.status, killed.signal], ['killed', 'SIGKILL']);

    const run = await service.api.run(
      id,
      "import os; print('kept' in globals(), open('kept').read(), os.environ['COLOUR'])",
    );
    assert.deepEqual([run.stdout, run.stateLost, run.contextId], ['False whole red\n', true, first.contextId]);
    assert.equal((await service.api.run(id, '1')).stateLost, undefined);
    const { resumed, networkPolicy } = await get(id);
    assert.deepEqual([resumed?.by, resumed?.memory, networkPolicy.mode], ['operation', 'lost', 'deny-all']);
    const closed = await service.api.run(id, "import socket; socket.create_connection(('1.1.1.1', 80), 2)");
    assert.ok(closed.error, 'the policy holds');
    await service.api.delete(path(id));
  });

  it('idle/P4: a sandbox on a real host whose memory is dropped has every file of every earlier cycle', async () => {
    const { id } = await service.api.readySandbox();
    const WRITE = `
import hashlib, os
for n in range(16):
    name = f'{CYCLE}-{n}'
    with open(name, 'wb') as file: file.write(hashlib.sha256(name.encode()).digest() * 1000)
`;
    const CHECK = `
import hashlib
bad = [f'{c}-{n}' for c in range(CYCLE + 1) for n in range(16)
       if open(f'{c}-{n}', 'rb').read() != hashlib.sha256(f'{c}-{n}'.encode()).digest() * 1000]
print(bad)`;
    for (const [cycle, memory] of ['drop', 'keep', 'drop', 'prefer', 'drop'].entries()) {
      await service.api.run(id, `CYCLE = ${cycle}\n${WRITE}`);
      await pause(id, { memory });
      const { stdout } = await service.api.run(id, `CYCLE = ${cycle}\n${CHECK}`);
      assert.equal(stdout, '[]\n', `after cycle ${cycle}`);
    }
    // Drops what is kept of one that is paused, and boots it.
    await pause(id);
    const { body } = await service.api.post(`${path(id)}/resume`, DROP);
    assert.equal(body.sandbox.resumed.memory, 'lost');
    assert.equal((await service.api.run(id, `CYCLE = 4\n${CHECK}`)).stdout, '[]\n');
    await service.api.delete(path(id));
  });

  it('a sandbox on a real host whose memory is lost with its instance is booted from the files of its pause, or its name', async () => {
    const WRITE = "open('kept', 'w').write('whole')";
    const paused = (await service.api.readySandbox()).id;
    const named = (await service.api.readySandbox({ name: 'kept-by-name' })).id;
    const ended = (await service.api.readySandbox()).id;
    for (const id of [paused, named, ended]) await service.api.run(id, WRITE);
    await pause(paused);
    // Keeps its disk, as the service does in a while.
    await pause(named);
    await service.api.post(`${path(named)}/resume`, {});
    for (const id of [paused, named, ended]) await service.killInstance(id);
    const states = () => Promise.all([named, ended].map(get));
    await eventually(async () => (await states()).every(({ status, paused: of }) => of || status === 'destroyed'));
    assert.deepEqual(
      (await states()).map(({ status, paused: of }) => [status, of?.by, of?.memory, of?.place, of?.lostReason]),
      [
        ['idle', 'host', 'lost', 'disk', 'host'],
        ['destroyed', undefined, undefined, undefined, undefined],
      ],
    );
    // A frozen process ends when it is thawed.
    for (const id of [paused, named]) {
      const read = { code: "print(open('kept').read())", language: 'python' };
      let run: CodeRun | undefined;
      await eventually(async () => {
        run = (await service.api.post(`${path(id)}/code/runs`, read)).body.run;
        return run !== undefined;
      });
      assert.deepEqual([run?.stdout, run?.stateLost, (await get(id)).resumed?.lostReason], ['whole\n', true, 'host']);
      await service.api.delete(path(id));
    }
  });

  it('idle/P10: a sandbox on a real host whose memory is dropped is destroyed at once, and outlives restarts of its service until then', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, "open('kept', 'w').write('whole')");
    const paused = await pause(id, DROP);
    await service.kill('server');
    await service.restart('hostd');
    await service.restart('server');
    assert.deepEqual(await get(id), paused);
    assert.equal((await service.api.run(id, "print(open('kept').read())")).stdout, 'whole\n');
    await pause(id, DROP);
    const startedAt = performance.now();
    assert.equal((await service.api.delete(path(id))).body.sandbox.status, 'destroyed');
    assert.ok(performance.now() - startedAt < 5_000);
  });
});

/** The processes that are killed while each sandbox stands at its step. */
const VICTIMS: readonly (readonly ProcessName[])[] = [['server'], ['hostd'], ['server', 'hostd'], ['egress']];
/** Rounds for each of `VICTIMS`. */
const ROUNDS = Number(process.env.CLOCHE_TEST_KILL_ROUNDS ?? 3);
/** Longest time until a sandbox is paused or live again. */
const SETTLED_MS = 15_000;

/** A sandbox whose pause or wake is held at one step in each round. */
class HeldSandbox extends PausedSandbox {
  readonly step: HeldStep;
  readonly #act: 'pause' | 'resume';
  #answer: Promise<Answer | undefined> = Promise.resolve(undefined);
  #eventsBefore = 0;

  constructor(id: SandboxId, step: HeldStep) {
    super(service, id);
    this.step = step;
    this.#act = step in PAUSE_STEPS ? 'pause' : 'resume';
  }

  /** Writes a file and begins the move, which stands still at its step. */
  async begin(round: string): Promise<void> {
    await this.value(`kept = ${JSON.stringify(round)}; open('round', 'w').write(kept)`);
    if (this.#act === 'resume') await this.pause();
    this.#eventsBefore = (await this.events()).length;
    steps.hold(this.id, this.step);
    this.#answer = service.api.post(`${this.path}/${this.#act}`, {}).catch(() => undefined);
    const early = this.#answer.then((answer) =>
      assert.fail(`${round}: ${this.step} is not reached: ${JSON.stringify(answer?.body)}`),
    );
    await Promise.race([steps.reached(this.id, this.step), early]);
    early.catch(() => undefined);
  }

  /** Asserts that it is paused or live, that its events say so, and that nothing of it is lost. */
  async settles(round: string): Promise<void> {
    const isSettled = async () => ((await this.get()).paused !== undefined) === this.isFrozen();
    await eventually(isSettled, { within: SETTLED_MS });
    const answer = await this.#answer;
    const isDone = answer?.status === 200;
    assert.ok(answer === undefined || isDone || answer.body.error.code === 'unavailable', JSON.stringify(answer?.body));
    const all = await this.events();
    const events = all.slice(this.#eventsBefore);
    const event = this.#act === 'pause' ? 'sandbox.paused' : 'sandbox.resumed';
    assert.ok(events.length <= 1 && events.every((one) => one === event), `${this.step}: ${events}`);
    if (isDone) assert.deepEqual(events, [event], this.step);
    // A wake that the next server goes on with is shown as paused until its event.
    const isTold = async () =>
      ((await this.get()).paused !== undefined) === ((await this.events()).at(-1) === 'sandbox.paused');
    await eventually(isTold, { within: SETTLED_MS, because: this.step });
    const run = await service.api.run(this.id, "print(kept, open('round').read())");
    assert.deepEqual([run.stdout, run.stateLost], [`${round} ${round}\n`, undefined], this.step);
  }
}

const withOneRuntime = sameWithEachRuntime(
  'server and hostd take the same steps; other tests here freeze with each runtime',
);
describe('a service that is killed with -9 at a step of a pause or a wake', withOneRuntime, () => {
  it('idle/F1: a service that is killed with -9 at a step of a pause or a wake leaves each sandbox paused or live, whole, with one event for each answer', async (t) => {
    // Has what a first sandbox adds to the host, such as a zygote.
    const first = await PausedSandbox.create(service);
    await first.value('1');
    const before = hostFootprint();
    const names = [...Object.keys(PAUSE_STEPS), ...Object.keys(WAKE_STEPS)] as HeldStep[];
    const held = await Promise.all(
      names.map(async (step) => new HeldSandbox((await service.api.readySandbox()).id, step)),
    );
    for (let count = 0; count < ROUNDS; count += 1) {
      for (const victims of VICTIMS) {
        const round = `${victims.join('+')} ${count}`;
        await Promise.all(held.map((sandbox) => sandbox.begin(round)));
        await Promise.all(victims.map((part) => service.kill(part)));
        steps.release();
        const killedAt = performance.now();
        // As the supervisor starts them: hostd need not be first.
        await Promise.all(victims.map((part) => service.restart(part)));
        await Promise.all(held.map((sandbox) => sandbox.settles(round)));
        t.diagnostic(`${round}: whole after ${Math.round(performance.now() - killedAt)} ms`);
      }
    }
    await Promise.all(held.map((sandbox) => sandbox.delete()));
    // The name of hostd's guard has the id of its process.
    const left = () =>
      describeGrowth(before, hostFootprint(), service.installationId).filter((line) => !/_guard_\d+ /.test(line));
    await eventually(() => left().length === 0, { within: SETTLED_MS }).catch(() => undefined);
    assert.deepEqual(left(), []);
    await first.delete();
  });
});
