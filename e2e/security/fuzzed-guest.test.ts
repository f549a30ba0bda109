/**
 * Sandboxes whose agent answers wrongly, by seeds. `CLOCHE_FUZZ_SECONDS` sets how long, `CLOCHE_FUZZ_SEED` repeats the
 * lies of one sandbox.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ERRORS, type ErrorCode } from '@cloche/contract';
import { Random } from '@cloche/testkit/fuzz';
import type { Api, RequestOptions } from '../support/api.ts';
import { assertGivenBack, heldBy } from '../support/hostile/held.ts';
import { lastingSandbox, standingDuring } from '../support/hostile/standing.ts';
import { type LyingService, lyingService } from './support/lying-service.ts';

const SECONDS = Number(process.env.CLOCHE_FUZZ_SECONDS ?? 60);
const FIRST_SEED = Number(process.env.CLOCHE_FUZZ_SEED ?? Date.now() % 2 ** 31);
/** Sandboxes at a time, operations at a time in each, and operations one after the other. */
const SANDBOXES = 8;
const OPERATIONS = 4;
const OPERATIONS_IN_TURN = 6;
/** Time limit of each operation that has one, and how much later its answer may come. */
const TIMEOUT_MS = 1_000;
const LATE_MS = 10_000;
/** Longest time of a request that has no time limit of its own: the client then goes away. */
const PATIENCE_MS = 2_500;
const MORE_DESCRIPTORS = 40;
const MORE_BYTES = 250 * 2 ** 20;

let service: LyingService;
let neighbour: string;
before(async () => {
  service = await lyingService('liar/fuzzing-hostd.ts');
  // It has no seed, so its agent is honest.
  neighbour = await lastingSandbox(service.api, SECONDS);
});
after(() => service?.[Symbol.asyncDispose]());

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly options?: RequestOptions;
}

const keyed = (body: unknown): RequestOptions => ({ body, key: 'auto' });
const bytes = (body: string): RequestOptions => ({ body, headers: { 'content-type': 'application/octet-stream' } });

/** Requests that make the server ask the agent. */
function operationOf(random: Random, at: string): Operation {
  const language = random.pick(['python', 'python', 'javascript'] as const);
  const code = random.pick(['1 + 1', 'print("x" * 10000)', 'import time; time.sleep(1)', 'nope'] as const);
  const run = keyed({ code, language, timeoutMs: TIMEOUT_MS });
  const command = keyed({ command: 'seq 1000; echo no >&2', timeoutMs: TIMEOUT_MS, background: random.chance(0.5) });
  const path = random.pick(['a', 'folder/b', 'c'] as const);
  return random.pick<Operation>([
    { method: 'POST', path: `${at}/code/runs`, options: run },
    { method: 'POST', path: `${at}/code/runs`, options: run },
    { method: 'POST', path: `${at}/code/runs/stream`, options: run },
    { method: 'POST', path: `${at}/code/contexts`, options: keyed({ language, timeoutMs: TIMEOUT_MS }) },
    { method: 'GET', path: `${at}/code/contexts` },
    { method: 'POST', path: `${at}/commands`, options: command },
    { method: 'POST', path: `${at}/commands`, options: command },
    { method: 'GET', path: `${at}/commands` },
    { method: 'PUT', path: `${at}/files/content?path=${path}`, options: bytes('x'.repeat(random.below(100_000))) },
    { method: 'GET', path: `${at}/files/content?path=${path}` },
    { method: 'GET', path: `${at}/files?path=.&depth=3` },
    { method: 'GET', path: `${at}/files/stat?path=${path}` },
    { method: 'POST', path: `${at}/files/directories`, options: keyed({ path: 'folder' }) },
    { method: 'POST', path: `${at}/files/move`, options: keyed({ from: path, to: 'd', overwrite: true }) },
    { method: 'GET', path: `${at}/files/archive?path=.&format=tar` },
    { method: 'GET', path: `${at}/files/watch?path=.` },
    { method: 'DELETE', path: `${at}/files?path=${path}` },
    { method: 'POST', path: `${at}/artifacts`, options: keyed({ path }) },
    { method: 'GET', path: `${at}/metrics` },
    { method: 'GET', path: at },
  ]);
}

/** Follows the logs of each command, and ends one of them. */
async function operationsOfCommands(api: Api, random: Random, at: string): Promise<Operation[]> {
  const { body } = await api.get(`${at}/commands`);
  const ids: string[] = (body.data ?? []).map(({ id }: { id: string }) => id).slice(0, 4);
  return ids.flatMap((id) => [
    { method: 'GET', path: `${at}/commands/${id}/logs?limit=${1 + random.below(100)}` },
    { method: 'GET', path: `${at}/commands/${id}/logs/stream` },
    { method: 'POST', path: `${at}/commands/${id}/kill`, options: keyed({ signal: 'SIGTERM' }) },
  ]);
}

/** How often operations ended in which way. */
const ends = new Map<string, number>();

async function perform(api: Api, { method, path, options }: Operation): Promise<void> {
  const startedAt = performance.now();
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const what = `${method} ${path} ${JSON.stringify(options?.body)?.slice(0, 200)}`;
  let end = 'left';
  try {
    const { status, body } = await api.request(method, path, { ...options, signal });
    assert.notEqual(status, 500, `${what}: ${JSON.stringify(body)}`);
    end = String(status);
    if (status < 400) return;
    const { code } = body.error;
    end = code;
    assert.equal(ERRORS[code as ErrorCode]?.status, status, `${what}: ${JSON.stringify(body)}`);
  } catch (error) {
    // A body that breaks off, or a client that has left.
    if (error instanceof assert.AssertionError) throw error;
  } finally {
    ends.set(end, (ends.get(end) ?? 0) + 1);
  }
  assert.ok(performance.now() - startedAt < LATE_MS, `${what} took ${performance.now() - startedAt} ms`);
}

/** Opens a terminal, types, and leaves. */
async function useTerminal({ api, apiKey }: LyingService, at: string): Promise<void> {
  const url = new URL(`${at}/pty?columns=80&rows=24`, api.url.replace('http', 'ws'));
  // Node's own accepts headers, which the types of browsers lack.
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${apiKey}` } } as unknown as string[]);
  socket.addEventListener('open', () => socket.send('echo $((6 * 7))\n'));
  await delay(300);
  socket.close();
}

/** Uses one sandbox that lies. It can be destroyed whatever it has said. */
async function round(seed: number): Promise<void> {
  const { api } = service;
  const random = new Random(seed);
  const made = await api.post('/v1/sandboxes', { env: { LIE_SEED: String(seed) }, ttlMs: 120_000 });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const at = `/v1/sandboxes/${made.body.sandbox.id}`;
  const inTurn = async () => {
    for (let count = 0; count < OPERATIONS_IN_TURN; count += 1) await perform(api, operationOf(random, at));
  };
  await Promise.all(Array.from({ length: OPERATIONS }, inTurn));
  await useTerminal(service, at);
  for (const operation of await operationsOfCommands(api, random, at)) await perform(api, operation);
  const { status, body } = await api.delete(at);
  assert.equal(status, 200, JSON.stringify(body));
}

it('agents that lie end no process, leave nothing behind, and take nothing from a neighbour', async (t) => {
  const { api } = service;
  const pid = service.serverPid();
  let seed = FIRST_SEED;
  const playing = new Set<number>();
  const attack = async (seconds: number) => {
    const until = performance.now() + seconds * 1000;
    const one = async () => {
      while (performance.now() < until) {
        const own = seed++;
        playing.add(own);
        await round(own);
        playing.delete(own);
      }
    };
    await Promise.all(Array.from({ length: SANDBOXES }, one));
  };
  try {
    await attack(Math.min(SECONDS / 6, 20));
    const before = heldBy(pid);
    const standing = await standingDuring(api, neighbour, () => attack(SECONDS));
    t.diagnostic(
      `${seed - FIRST_SEED} sandboxes from seed ${FIRST_SEED}, ${standing.streams} streams of the neighbour`,
    );
    t.diagnostic(JSON.stringify(Object.fromEntries(ends)));
    assert.equal(service.serverPid(), pid);
    assert.deepEqual(standing.broken, []);
    assert.ok(standing.streams > 0);
    await assertGivenBack(pid, before, { descriptors: MORE_DESCRIPTORS, bytes: MORE_BYTES });
  } catch (cause) {
    throw new Error(`CLOCHE_FUZZ_SEED of one of these does it again: ${[...playing].join(' ')}`, { cause });
  }
  const { status } = await api.post('/v1/sandboxes', undefined, randomUUID());
  assert.equal(status, 201);
});
