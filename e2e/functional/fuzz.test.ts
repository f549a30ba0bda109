import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { ERRORS, type ErrorCode } from '@cloche/contract';
import { Random } from '@cloche/testkit/fuzz';
import type { Answer } from '../support/api.ts';
import { lentService } from '../support/lent-service.ts';
import { type MalformedRequest, malformedRequest } from '../support/malformed-requests.ts';
import type { TestService } from '../support/service.ts';

const SEED = Number(process.env.CLOCHE_FUZZ_SEED ?? Date.now() % 2 ** 31);
const REQUESTS = 3_000;
const AT_ONCE = 16;
/** Memory that may not be collected yet; if the body of each request leaked, growth would be many times that. */
const GROWTH_BYTES = 100 * 2 ** 20;
const ANSWER_BYTES = 64 * 1024;

let service: TestService;
let ids: { sandboxId: string; contextId: string };
before(async () => {
  service = await lentService();
  const sandboxId = (await service.api.readySandbox()).id;
  const made = await service.api.post(`/v1/sandboxes/${sandboxId}/code/contexts`, { language: 'python' });
  ids = { sandboxId, contextId: made.body.context.id };
});
after(() => service.close());

function residentBytes(): number {
  const [, pages] = readFileSync(`/proc/${service.pid('server')}/statm`, 'utf8').split(' ');
  return Number(pages) * 4096;
}

async function sendAll(random: Random, count: number): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  let left = count;
  const send = async () => {
    while (left-- > 0) {
      const request = malformedRequest(random, ids);
      const answer = await service.api.request(request.operation.method, request.path, request.options);
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      assertDocumented(request, answer);
      if (answer.status === 201) await undo(answer);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, send));
  return statuses;
}

/** Removes what a malformed request has created nevertheless, which would fill the sandbox or the host. */
async function undo({ body: { sandbox, context } }: Answer): Promise<void> {
  const path = sandbox ? sandbox.id : `${context.sandboxId}/code/contexts/${context.id}`;
  const { status } = await service.api.delete(`/v1/sandboxes/${path}`);
  assert.equal(status, 200);
}

/** Asserts that a success matches the contract, and that an error is one of the catalogue. */
function assertDocumented({ operation, path, options }: MalformedRequest, { status, headers, body }: Answer): void {
  const what = `${operation.method} ${path} ${String(options.body).slice(0, 2000)}\n=> ${status} ${JSON.stringify(body)?.slice(0, 2000)}`;
  assert.ok(headers.get('x-request-id'), what);
  if (status === operation.response.status) return;
  assert.ok(status < 500, what);
  assert.deepEqual(Object.keys(body), ['error'], what);
  const { code, message, requestId, details, ...others } = body.error;
  assert.equal(ERRORS[code as ErrorCode]?.status, status, what);
  assert.ok(typeof message === 'string' && message !== '', what);
  assert.ok(details === undefined || typeof details === 'object', what);
  assert.deepEqual(others, {}, what);
  assert.equal(requestId, headers.get('x-request-id'), what);
  assert.ok(JSON.stringify(body).length < ANSWER_BYTES, what.slice(0, 4000));
}

describe('thousands of malformed requests', () => {
  it('each get a documented answer, and leave the server as it was', async (t) => {
    t.diagnostic(`CLOCHE_FUZZ_SEED=${SEED}`);
    const random = new Random(SEED);
    await sendAll(random, REQUESTS / 4);
    const before = residentBytes();
    const statuses = await sendAll(random, (REQUESTS * 3) / 4);
    const grown = residentBytes() - before;
    t.diagnostic(`${JSON.stringify(Object.fromEntries(statuses))}, ${Math.round(grown / 2 ** 20)} MiB more`);
    assert.ok(grown < GROWTH_BYTES, `${grown} bytes`);
    assert.ok((statuses.get(400) ?? 0) > REQUESTS / 4, 'too few were malformed');
    const run = await service.api.run(ids.sandboxId, '1 + 1');
    assert.equal(run.outputs[0]?.value, '2');
  });
});
