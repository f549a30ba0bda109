import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type CodeRun, type CodeRunEvent, operations } from '@cloche/contract';
import { longestTurn } from '@cloche/testkit/longest-turn';
import type { ApiAnswer } from '../../../testing/call-api.ts';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { route, streamRoute } from './route.ts';

const MEBIBYTE = 1024 * 1024;
/** A result whose JSON takes 6 MiB. */
const run = { stdout: '\u0001'.repeat(MEBIBYTE), stderr: '"é😀\n', outputs: [] } as unknown as CodeRun;
/** A result whose JSON takes 48 MiB. */
const largest = { stdout: '\u0001'.repeat(8 * MEBIBYTE) } as unknown as CodeRun;
/** A round that a garbage collection made slow is repeated. */
const ROUNDS = 5;
const body = { code: '1', language: 'python' };
const path = '/v1/sandboxes/sbx_1/code/runs';

let service: TestService;
let executed = 0;
let answered: CodeRun = run;

before(async () => {
  service = await startTestService([
    route(operations.runCode, async () => {
      executed += 1;
      return { run: answered };
    }),
    route(operations.listSandboxes, async () => ({ data: [run as never], hasMore: false })),
    streamRoute(operations.streamCode, async () => stream()),
  ]);
});
after(() => service.close());

async function* stream(): AsyncGenerator<CodeRunEvent> {
  yield { type: 'stdout', data: run.stdout };
  yield { type: 'complete', data: run };
}

const frame = (type: string, data: unknown) => `event: ${type}\ndata: ${JSON.stringify({ type, data })}\n\n`;
const isReplay = (answer: ApiAnswer) => answer.headers.get('idempotency-replayed');

describe('a large answer', () => {
  it('a large answer is what a small one would be, and is replayed byte for byte', async () => {
    const first = await service.call('POST', path, { body, idempotencyKey: 'json' });
    assert.equal(first.status, 200);
    assert.ok(first.text === JSON.stringify({ run }));
    assert.equal(first.headers.get('content-length'), `${Buffer.byteLength(first.text)}`);
    const again = await service.call('POST', path, { body, idempotencyKey: 'json' });
    assert.equal(isReplay(again), 'true');
    assert.ok(again.text === first.text);
    assert.equal(executed, 1);
  });

  it('a large answer is sent where nothing is recorded, too', async () => {
    const listed = await service.call('GET', '/v1/sandboxes');
    assert.ok(listed.text === JSON.stringify({ data: [run], hasMore: false }));
  });

  it('a large answer ends a stream of large events, and its replay is the result alone', async () => {
    const first = await service.call('POST', `${path}/stream`, { body, idempotencyKey: 'stream' });
    assert.ok(first.text === frame('stdout', run.stdout) + frame('complete', run));
    const again = await service.call('POST', `${path}/stream`, { body, idempotencyKey: 'stream' });
    assert.equal(isReplay(again), 'true');
    assert.ok(again.text === frame('complete', run));
  });

  it('a large answer of 48 MiB keeps others waiting for a small part of the time that encoding it at once takes', async () => {
    answered = largest;
    const rounds: string[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const atOnceMs = await longestTurn(async () => JSON.stringify(largest));
      const blockedMs = await longestTurn(beginAnswer);
      if (blockedMs < atOnceMs / 2) return;
      rounds.push(`${blockedMs} ms of ${atOnceMs} ms`);
    }
    assert.fail(rounds.join(', '));
  });

  /** Resolves when the answer begins. The client runs in this process: while it does not read, it takes no time. */
  async function beginAnswer(): Promise<void> {
    const headers = { authorization: `Bearer ${await service.key()}`, 'content-type': 'application/json' };
    const answer = await fetch(service.url + path, {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': randomUUID() },
      body: JSON.stringify(body),
    });
    await answer.body?.cancel();
    assert.equal(answer.headers.get('content-length'), `${48 * MEBIBYTE + '{"run":{"stdout":""}}'.length}`);
  }
});
