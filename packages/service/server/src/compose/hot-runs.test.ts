/** Cost of quotas for a run, with a whole server on a fake runtime, called over real sockets. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { type ExecutedStatements, recordStatements } from '../../testing/executed-statements.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

const RUNS = 400;
/** Tables and columns that only quotas use. */
const OF_QUOTAS = /"(quotas|limited|request_counts|quota_refusals)"/;

let statements: ExecutedStatements;
let tenants: Tenants;
let key: string;
let sandboxId: string;
before(async () => {
  statements = recordStatements();
  tenants = await openTenants();
  key = tenants.keys.whole;
  sandboxId = await tenants.createSandbox(key);
});
after(async () => {
  await tenants.close();
  statements[Symbol.dispose]();
});

const limit = (quotas: object) => tenants.operator('/orgs/default/quotas', quotas, 'PATCH');

async function run(): Promise<void> {
  const body = { code: 'value 42', language: 'python' };
  const path = `/v1/sandboxes/${sandboxId}/code/runs`;
  const { status } = await tenants.call(key, 'POST', path, { body, idempotencyKey: randomUUID() });
  assert.equal(status, 200);
}

/** Returns how many statements quotas execute in a second of many runs. */
async function statementsInASecond(): Promise<number> {
  await run();
  statements.take();
  const begun = performance.now();
  for (let count = 0; count < RUNS; count += 1) await run();
  const seconds = Math.ceil((performance.now() - begun) / 1000) + 1;
  const executed = statements.take();
  // Control: the runs themselves are recorded.
  assert.ok(executed.length > 0);
  // Otherwise one statement for each run would be as few in a second as the tests permit.
  assert.ok(RUNS / seconds > 8, `${RUNS} runs took ${seconds} s`);
  return executed.filter((sql) => OF_QUOTAS.test(sql)).length / seconds;
}

describe('a run', () => {
  it('a run costs quotas nothing where none limits requests, but one look at the limits in a second', async () => {
    assert.ok((await statementsInASecond()) <= 1);
  });

  it('a run costs as little where only other quotas are limited', async () => {
    await limit({ liveSandboxes: 1000, sandboxesPerMinute: 1000, artifactBytes: 1e9, previews: 100 });
    assert.ok((await statementsInASecond()) <= 2);
  });

  it('a run costs memory alone where requests are limited: their counts are exchanged once in a second', async () => {
    await limit({ requestsPerMinute: 1_000_000 });
    const url = `${tenants.server.url}/v1/projects`;
    const isLimited = async () =>
      (await fetch(url, { headers: { authorization: `Bearer ${key}` } })).headers.has('ratelimit');
    await eventually(isLimited, { because: 'the limit was set' });
    // Two reads of limits, two seconds of counts to write, one read of other counts and one deletion.
    assert.ok((await statementsInASecond()) <= 6);
  });
});
