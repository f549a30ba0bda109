import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { execa } from 'execa';
import { residentBytes } from '../support/process.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { agentPid, execInside } from './support/attackers.ts';
import { type LyingService, lyingService } from './support/lying-service.ts';

const MEBIBYTE = 1024 * 1024;
const TIMEOUT_MS = 1000;
/** Largest growth of the server's memory during a lie. A line may hold 64 MiB, both as text and as bytes. */
const MOST_GROWTH = 256 * MEBIBYTE;
/** Another sandbox's run may take this many times as long, or `NOISE_MS` longer if it is very short. */
const RATIO = 3;
const NOISE_MS = 10;
const ATTEMPTS = 3;
/** Fewest runs that a median is taken of. */
const MIN_SAMPLES = 100;

describe('an agent that lies', () => {
  let service: LyingService;
  let neighbour: string;
  before(async () => {
    service = await lyingService();
    neighbour = (await service.api.readySandbox()).id;
  });
  after(() => service?.[Symbol.asyncDispose]());

  const run = (sandboxId: string, lie: string, contextId?: string, timeoutMs = TIMEOUT_MS) =>
    service.api.post(`/v1/sandboxes/${sandboxId}/code/runs`, {
      code: lie,
      language: 'python',
      timeoutMs,
      ...(contextId && { contextId }),
    });

  it('an agent that lies is taken for an honest one as long as it tells the truth', async () => {
    const { id } = await service.api.readySandbox();
    const { status, body } = await run(id, 'truth');
    assert.deepEqual([status, body.run.stdout, body.run.error], [200, 'honest', undefined]);
  });

  /**
   * Lies that violate the protocol make the sandbox `failed`; lies within the protocol, or silence, end with the run.
   */
  const lies = {
    failed: [
      'garbage',
      'no HTTP',
      'an event of no kind',
      'a result of another run',
      'a line of gigabytes',
      'endless output',
      'endless headers',
      'endless small headers',
      'deep nesting',
      'another protocol',
      'a way elsewhere',
      'a number of executions that is none',
      'endless announcements',
      'a line of nothing but brackets',
    ],
    TimeoutError: ['nothing', 'half of an answer', 'most of a line, and then nothing'],
    unavailable: ['a broken connection', 'no end'],
    ignored: ['more after the end'],
  };

  for (const [end, names] of Object.entries(lies)) {
    for (const lie of names) {
      it(`by ${lie}: ${end}, in bounded memory and time, and its neighbour works on`, async () => {
        const { id } = await service.api.readySandbox();
        const startedAt = performance.now();
        const { answer, grown } = await whileWatching(() => run(id, lie));
        assert.ok(performance.now() - startedAt < TIMEOUT_MS + 1500);
        assert.ok(grown < MOST_GROWTH, `grew by ${grown / MEBIBYTE} MiB`);
        const { sandbox } = (await service.api.get(`/v1/sandboxes/${id}`)).body;
        assert.equal(
          sandbox.status === 'failed',
          end === 'failed',
          `${sandbox.status}; ${JSON.stringify(answer.body)}`,
        );
        assert.equal(endOf(answer), end);
        assert.equal((await run(neighbour, 'truth')).body.run.stdout, 'honest');
        await service.api.delete(`/v1/sandboxes/${id}`);
      });
    }
  }

  it('by archives writes nothing outside of the target that its user copies to twice, and makes no device', async () => {
    const { id } = await service.api.readySandbox();
    const folder = mkdtempSync(join(tmpdir(), 'cloche-lying-'));
    try {
      for (const name of ['elsewhere', 'target', 'by-tar']) mkdirSync(join(folder, name));
      const copy = (path: string) =>
        execa('packages/clients/cli/bin/cloche.mjs', ['cp', `${id}:${path}/.`, join(folder, 'target')], {
          env: { CLOCHE_URL: service.api.url, CLOCHE_API_KEY: service.apiKey },
          reject: false,
        });
      assert.equal((await copy('/link')).exitCode, 0);
      assert.equal((await copy('/below-link')).exitCode, 0);
      assert.match((await copy('/device')).stderr, /is a device/);
      assert.deepEqual(readdirSync(join(folder, 'elsewhere')), []);
      assert.deepEqual(readdirSync(join(folder, 'target'), { recursive: true }).sort(), ['link', 'link/file']);

      // The control: a plain unpacker writes through the link and creates the device.
      for (const path of ['/link', '/below-link', '/device']) {
        const url = new URL(`/v1/sandboxes/${id}/files/archive?path=${path}&format=tar`, service.api.url);
        const answer = await fetch(url, { headers: { authorization: `Bearer ${service.apiKey}` } });
        const input = Buffer.from(await answer.arrayBuffer());
        await execa('tar', ['-C', join(folder, 'by-tar'), '-xf', '-'], { input });
      }
      assert.deepEqual(readdirSync(join(folder, 'elsewhere')), ['file']);
      assert.ok(statSync(join(folder, 'by-tar/disk')).isBlockDevice());
    } finally {
      rmSync(folder, { recursive: true });
    }
    const answer = await service.api.get(`/v1/sandboxes/${neighbour}`);
    assert.equal(answer.status, 200);
  });

  it('an agent that lies in many runs at once costs no more than in one', async () => {
    const { id } = await service.api.readySandbox();
    const contexts = await Promise.all(
      Array.from({ length: 8 }, () => service.api.post(`/v1/sandboxes/${id}/code/contexts`, { language: 'python' })),
    );
    const { grown } = await whileWatching(() =>
      Promise.all(contexts.map(({ body }) => run(id, 'most of a line, and then nothing', body.context.id, 4000))),
    );
    assert.ok(grown < MOST_GROWTH, `grew by ${grown / MEBIBYTE} MiB`);
  });

  for (const lie of ['events without end', 'endless announcements']) {
    it(`an agent that lies by ${lie} does not keep the server from others`, async (t) => {
      const seen: string[] = [];
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        const quietMs = await medianMs(neighbour);
        const { id } = await service.api.readySandbox();
        const flood = run(id, lie, undefined, 2000);
        const busyMs = await medianMs(neighbour, flood);
        await service.api.delete(`/v1/sandboxes/${id}`);
        seen.push(`${busyMs.toFixed(1)} ms, quiet ${quietMs.toFixed(1)} ms`);
        if (busyMs <= Math.max(RATIO * quietMs, quietMs + NOISE_MS)) break;
        assert.ok(attempt + 1 < ATTEMPTS, seen.join('; '));
      }
      t.diagnostic(`a neighbour's run meanwhile: ${seen.join('; ')}`);
    });
  }

  /**
   * Returns the median time of a sandbox's runs: of all while `meanwhile` is pending, and of some after it if it is over
   * soon. The server closes the connection at the first announcement, so this takes less time than one run.
   */
  async function medianMs(sandboxId: string, meanwhile?: Promise<unknown>): Promise<number> {
    let isOver = meanwhile === undefined;
    const over = () => {
      isOver = true;
    };
    meanwhile?.then(over, over);
    const times: number[] = [];
    while (!isOver || times.length < MIN_SAMPLES) {
      const startedAt = performance.now();
      await run(sandboxId, 'truth');
      times.push(performance.now() - startedAt);
    }
    return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? Number.NaN;
  }

  function endOf({
    status,
    body,
  }: {
    status: number;
    body: { error?: { code: string }; run?: { error?: { name: string } } };
  }) {
    if (body.error?.code === 'sandbox_failed') return 'failed';
    if (body.error) return body.error.code;
    assert.equal(status, 200);
    return body.run?.error?.name ?? 'ignored';
  }

  /** Returns the largest growth of the server's memory while `act` is running. */
  async function whileWatching<T>(act: () => Promise<T>): Promise<{ answer: T; grown: number }> {
    const before = residentBytes(service.serverPid());
    let peak = before;
    const watch = setInterval(() => {
      peak = Math.max(peak, residentBytes(service.serverPid()));
    }, 20);
    try {
      return { answer: await act(), grown: peak - before };
    } finally {
      clearInterval(watch);
    }
  }
});

describe('the root of a sandbox', () => {
  let service: TestService;
  let neighbour: string;
  before(async () => {
    service = await sharedService();
    neighbour = (await service.api.readySandbox()).id;
    await service.api.run(neighbour, 'kept = 1');
  });
  after(() => service?.close());

  it('root of a sandbox that kills the agent ends its own sandbox, and no other', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, '1');
    const agent = await agentPid(service, id);
    // The process that kills the agent ends with the sandbox.
    await execInside(service, id, ['kill', '-9', String(agent)]).catch(() => undefined);
    await eventually(async () => {
      await service.api.post(`/v1/sandboxes/${id}/code/runs`, { code: '1', language: 'python' });
      return (await service.api.get(`/v1/sandboxes/${id}`)).body.sandbox.status === 'destroyed';
    });
    assert.equal((await service.api.run(neighbour, 'kept')).outputs[0]?.value, '1');
  });

  it('root of a sandbox that stops the agent gets no answer beyond the time of a run, and can still be destroyed', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, '1');
    await execInside(service, id, ['kill', '-STOP', String(await agentPid(service, id))]);
    const startedAt = performance.now();
    const run = await service.api.run(id, '1', { timeoutMs: TIMEOUT_MS });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.ok(performance.now() - startedAt < TIMEOUT_MS + 1000);
    assert.equal((await service.api.delete(`/v1/sandboxes/${id}`)).body.sandbox.status, 'destroyed');
    assert.equal((await service.api.run(neighbour, 'kept')).outputs[0]?.value, '1');
  });
});

describe('a kernel that lies to its agent', () => {
  let service: TestService;
  let sandboxId: string;
  before(async () => {
    service = await sharedService();
    sandboxId = (await service.api.readySandbox()).id;
  });
  after(() => service?.close());

  /** User code shares its process with the kernel, so it can find the socket to the agent and write to it. */
  const speak = (what: string) => `
import asyncio, os, stat, struct, json
loop = asyncio.get_running_loop()
of_loop = [loop._ssock.fileno(), loop._csock.fileno()]
sockets = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{fd}").st_mode)]
sockets = [fd for fd in sockets if fd not in of_loop]
def frame(body): return struct.pack(">I", len(body)) + body
def send(data):
    for fd in sockets:
        os.set_blocking(fd, True)
        while data: data = data[os.write(fd, data):]
assert sockets
${what}`;
  const lies: Record<string, string> = {
    'garbage in a frame': 'send(frame(b"\\x00 no JSON"))',
    'a frame of gigabytes': 'send(struct.pack(">I", 0xffffffff) + b"x" * (1 << 20))',
    'a message of no kind': 'send(frame(json.dumps({"type": "secret"}).encode()))',
    'deep nesting': 'send(frame(b"[" * (1 << 20)))',
  };
  for (const [name, lie] of Object.entries(lies)) {
    it(`by ${name} loses its process, and the context works on`, async () => {
      const run = await service.api.run(sandboxId, `${speak(lie)}\nimport time; time.sleep(5)`, { timeoutMs: 8000 });
      assert.equal(run.error?.name, 'KernelDiedError', JSON.stringify(run));
      const next = await service.api.run(sandboxId, '1 + 1');
      assert.deepEqual([next.outputs[0]?.value, next.stateLost], ['2', true]);
    });
  }

  it('the result of another run, which a kernel sends to its agent, is passed to no client', async () => {
    const stolen = '{"type": "output", "runId": "run_other", "kind": "inline", "format": "text", "value": "stolen"}';
    const { id } = await service.api.readySandbox();
    await service.api.run(id, speak(`send(frame(${JSON.stringify(stolen)}.encode()))`));
    const next = await service.api.run(id, '1 + 1');
    assert.deepEqual(
      next.outputs.map(({ value }) => value),
      ['2'],
    );
  });
});
