/** Tests the purpose of the journal of idempotency records. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { figuresOf } from '../../bench/src/statistics.ts';
import { inTurns, timed } from '../../bench/src/timing.ts';
import { randomIds } from '../../packages/service/server/src/platform/base/id-source.ts';
import { migrate } from '../../packages/service/server/src/platform/db/migrate.ts';
import { openDatabase } from '../../packages/service/server/src/platform/db/open-database.ts';
import {
  type IdempotencyRecords,
  IdempotencyRepository,
} from '../../packages/service/server/src/platform/idempotency/idempotency-repository.ts';
import { JournaledRecords } from '../../packages/service/server/src/platform/idempotency/sqlite/journaled-records.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-records-'));
const db = await openDatabase(`sqlite:${join(folder, 'x.db')}`);
let direct: IdempotencyRepository;
let journaled: JournaledRecords;
before(async () => {
  await migrate(db);
  direct = new IdempotencyRepository(db);
  journaled = await JournaledRecords.open(db, direct, join(folder, 'journal'), console);
});
after(async () => {
  await journaled.close();
  await db.destroy();
  rmSync(folder, { recursive: true });
});

async function openAndClose(records: IdempotencyRecords): Promise<void> {
  const id = randomIds.next('idem_');
  const scope = { orgId: 'org_1', apiKeyId: 'key_1', method: 'POST', route: '/v1/x', key: id } as const;
  const now = Date.now();
  const rest = { bodyHash: 'a'.repeat(64), owner: `srv_1:${id}`, now, expiresAt: now + 60_000 };
  assert.equal((await records.claim({ ...scope, id, ...rest }))?.id, id);
  assert.equal(await records.complete(id, rest.owner, { status: 200, body: '{}' }), true);
}

describe('opening and closing an idempotency record', () => {
  it('opening and closing an idempotency record keeps requests waiting for at most half of what two transactions take', async () => {
    const many = async (records: IdempotencyRecords) => {
      for (let n = 0; n < 10; n++) await openAndClose(records);
    };
    const acts = {
      direct: () => timed(() => many(direct)),
      journaled: async () => {
        const ms = await timed(() => many(journaled));
        // Writes to the database that happen after all responses are sent.
        await journaled.flush();
        return ms;
      },
    };
    await inTurns(30, acts);
    const values = await inTurns(100, acts);
    const ratio = figuresOf(values.journaled).p50 / figuresOf(values.direct).p50;
    assert.ok(ratio <= 0.5, `${ratio.toFixed(2)} of it`);
  });
});
