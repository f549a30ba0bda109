/** Results of the largest size: their cost for the server, the disk and other clients. */
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '@cloche/contract';
import { dataPaths } from '@cloche/layout';
import { Api } from '../support/api.ts';
import { residentBytes } from '../support/process.ts';
import { type OwnService, testService } from '../support/service.ts';
import { medianLatencyDuringMs, medianLatencyMs } from './support/latency.ts';

const MEBIBYTE = 1024 * 1024;
/** Largest response of a run: its streams, its outputs, and the JSON around them. */
const LARGEST_ANSWER = 2 * LIMITS.outputStreamBytes + LIMITS.inlineOutputsBytes + MEBIBYTE;
const CONTEXTS = 6;
/** Limit of the responses that one organization keeps for replay. */
const REPLAY_MB = 24;
const CONTROL_CHARACTERS = `import sys
from IPython.display import display
s = "\\x01" * ((8 << 20) - 64)
sys.stdout.write(s); sys.stderr.write(s)
for _ in range(8): display({"text/plain": s[:800_000]}, raw=True)
None`;
const RANDOM = 'import base64, os, sys; sys.stdout.write(base64.b64encode(os.urandom(6 << 20)).decode())';

let service: OwnService;
let neighbour: { api: Api; sandboxId: string };

before(async () => {
  service = await testService({ CLOCHE_REPLAY_MAX_MB: `${REPLAY_MB}` });
  const org = await service.createOrg('neighbour');
  const api = new Api(service.url, await service.createKey({ org, scopes: ['*'] }));
  neighbour = { api, sandboxId: (await api.readySandbox()).id };
  await medianLatencyMs(neighbour, neighbour.sandboxId, 40);
});
after(() => service?.close());

interface Received {
  readonly status: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly text: string;
}

/** Reads the response without keeping more than its end. */
async function receive(path: string, body: object, key: string): Promise<Received> {
  const response = await fetch(service.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${service.apiKey}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body: JSON.stringify(body),
  });
  const hash = createHash('sha256');
  let bytes = 0;
  let text = '';
  for await (const chunk of response.body ?? []) {
    hash.update(chunk);
    bytes += chunk.length;
    text = (text + Buffer.from(chunk).toString('latin1')).slice(-1000);
  }
  return { status: response.status, bytes, sha256: hash.digest('hex'), text };
}

/** Resolves with the time of the slowest `/healthz` response until `meanwhile` settles. */
async function slowestHealthMs(meanwhile: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  meanwhile.then(over, over);
  let slowest = 0;
  while (!isOver) {
    const started = performance.now();
    await (await fetch(`${service.url}/healthz`)).arrayBuffer();
    slowest = Math.max(slowest, performance.now() - started);
    await delay(20);
  }
  return slowest;
}

/**
 * Returns the bytes that the server stores: database, journal and files. SQLite's log is limited by itself, to some 64
 * MiB.
 */
function storedBytes(): number {
  const files = globSync('**', { cwd: dataPaths(service.dataDir).serverDir, withFileTypes: true });
  const kept = files.filter(({ name }) => !name.endsWith('-wal') && !name.endsWith('-shm'));
  return kept.reduce((sum, file) => sum + (file.isFile() ? statSync(join(file.parentPath, file.name)).size : 0), 0);
}

describe('results as large as they can be', () => {
  it('results as large as they can be of control characters, in six contexts at once, stop neither the server nor a neighbour', async (t) => {
    const { id } = await service.api.readySandbox();
    const path = `/v1/sandboxes/${id}/code`;
    const created = Array.from({ length: CONTEXTS }, () =>
      service.api.post(`${path}/contexts`, { language: 'python' }),
    );
    const contexts = (await Promise.all(created)).map(({ body }) => body.context.id as string);
    const bodies = contexts.map((contextId) => ({ contextId, code: CONTROL_CHARACTERS, language: 'python' }));
    const keys = contexts.map(() => randomUUID());
    const quietMs = await medianLatencyMs(neighbour, neighbour.sandboxId);
    const grownFrom = { memory: residentBytes(service.pid('server')), disk: storedBytes() };

    const attack = Promise.all(bodies.map((body, index) => receive(`${path}/runs`, body, keys[index] ?? '')));
    const peak = peakBytes(service.pid('server'), attack);
    const [busyMs, healthMs] = await Promise.all([
      medianLatencyDuringMs(neighbour, neighbour.sandboxId, attack),
      slowestHealthMs(attack),
    ]);
    const answers = await attack;
    const grown = { memory: (await peak) - grownFrom.memory, disk: storedBytes() - grownFrom.disk };
    const printed = 2 * ((8 << 20) - 64) + 8 * 800_000;
    const atOnceMs = encodingMs(printed);
    t.diagnostic(
      `health at worst ${healthMs.toFixed(0)} ms, encoding at once ${atOnceMs.toFixed(0)} ms; neighbour ${busyMs.toFixed(1)} ms, ` +
        `quiet ${quietMs.toFixed(1)} ms; grown by ${(grown.memory / MEBIBYTE).toFixed(0)} MiB, stored ${(grown.disk / MEBIBYTE).toFixed(1)} MiB`,
    );

    for (const { status, bytes, text } of answers) {
      assert.equal(status, 200);
      assert.ok(bytes > 40 * MEBIBYTE && bytes <= LARGEST_ANSWER, `${bytes} bytes`);
      assert.match(text, /"truncated":\{"stdout":\d+,"stderr":\d+\}/);
    }
    // The control: encoding all printed bytes would give far more than the response, and would stall the server.
    assert.ok(6 * printed > 2.5 * LARGEST_ANSWER);
    assert.ok(healthMs < atOnceMs, `${healthMs} ms, against ${atOnceMs} ms`);
    assert.ok(grown.memory < 700 * MEBIBYTE, `grew by ${grown.memory / MEBIBYTE} MiB`);
    assert.ok(grown.disk < 20 * MEBIBYTE, `stored ${grown.disk / MEBIBYTE} MiB`);

    const [first] = answers;
    await service.kill('server');
    await service.restart('server');
    const again = await receive(`${path}/runs`, bodies[0] ?? {}, keys[0] ?? '');
    assert.deepEqual([again.status, again.sha256], [200, first?.sha256]);
    await service.api.delete(`/v1/sandboxes/${id}`);
  });

  it('results as large as they can be fill no more of the disk than an organization may keep for replay', async () => {
    const { id } = await service.api.readySandbox();
    const path = `/v1/sandboxes/${id}/code/runs`;
    const body = { code: `count = globals().get("count", 0) + 1\n${RANDOM}`, language: 'python' };
    const first = await receive(path, body, 'first');
    let refused: Received | undefined;
    for (let runs = 1; !refused && runs < 10; runs += 1) {
      const answer = await receive(path, body, randomUUID());
      if (answer.status !== 200) refused = answer;
    }
    assert.equal(refused?.status, 429);
    const { error } = JSON.parse(refused?.text ?? '');
    assert.deepEqual(
      [error.code, error.details.quota, error.details.limit],
      ['quota_exceeded', 'replay_bytes', REPLAY_MB * MEBIBYTE],
    );
    assert.ok(storedBytes() < (REPLAY_MB + 24) * MEBIBYTE);
    // Recorded responses are replayed, and other requests still work.
    const again = await receive(path, body, 'first');
    assert.equal(again.sha256, first.sha256);
    assert.equal((await neighbour.api.run(neighbour.sandboxId, '1 + 1')).outputs[0]?.value, '2');
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});

/** Measures the time to encode this many control characters at once, on this machine now. */
function encodingMs(characters: number): number {
  const started = performance.now();
  JSON.stringify('\u0001'.repeat(characters));
  return performance.now() - started;
}

async function peakBytes(pid: number, meanwhile: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  meanwhile.then(over, over);
  let peak = residentBytes(pid);
  while (!isOver) {
    peak = Math.max(peak, residentBytes(pid));
    await delay(20);
  }
  return peak;
}
