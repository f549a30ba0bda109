import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import type { OrgId, ProjectId } from '@cloche/contract';
import { created, ORG, openAudit, START } from '../../../testing/audit.ts';

/** Sorts the keys of an object and of its objects, as the description of `hash` says. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, field]) => [name, sorted(field)]));
}

describe('the chain of audit events', () => {
  it('the chain of audit events gives each event the hash of the one before, which a reader can compute', async () => {
    await using audit = await openAudit();
    await audit.fill(3);
    let prevHash = '0'.repeat(64);
    for (const { hash, ...fields } of await audit.events()) {
      assert.equal(fields.prevHash, prevHash);
      assert.equal(
        hash,
        createHash('sha256')
          .update(JSON.stringify(sorted(fields)))
          .digest('hex'),
      );
      prevHash = hash;
    }
  });

  it('the chain of audit events numbers the events of each organization by themselves', async () => {
    await using audit = await openAudit();
    await Promise.all(
      [1, 2, 3].flatMap((n) => [
        audit.log.append(created(`a${n}`)),
        audit.log.append(created(`b${n}`, 'org_2' as OrgId)),
      ]),
    );
    assert.deepEqual(
      (await audit.events()).map(({ seq }) => seq),
      [1, 2, 3],
    );
    assert.equal((await audit.verify()).problemCount, 0);
  });

  it('the chain of audit events has no event of a transaction that is rolled back', async () => {
    await using audit = await openAudit();
    await audit.fill(1);
    const lost = audit.transactions.run(async (tx) => {
      await audit.log.append(created('lost'), tx);
      throw new Error('rolled back');
    });
    await assert.rejects(lost, /rolled back/);
    await audit.fill(1);
    assert.deepEqual(
      (await audit.events()).map(({ seq }) => seq),
      [1, 2],
    );
    assert.equal((await audit.verify()).problemCount, 0);
  });
});

describe('the verification of a chain', () => {
  /** Changes rows, and returns the numbers and kinds of the problems found. */
  async function problemsAfter(change: (audit: Awaited<ReturnType<typeof openAudit>>) => Promise<unknown>) {
    await using audit = await openAudit();
    await audit.fill(1200);
    assert.deepEqual((await audit.verify()).problems, []);
    await change(audit);
    const { problems } = await audit.verify();
    return problems.map(({ seq, kind }) => `${seq} ${kind}`);
  }

  it('the verification of a chain has no problem with an event whose target a database stores in another form', async () => {
    await using audit = await openAudit();
    await audit.log.append(created('nul \0 and half a \ud800 character'));
    const { events, problems } = await audit.verify();
    assert.deepEqual([events, problems], [1, []]);
  });

  it('the verification of a chain finds an event that was changed, whichever column', async () => {
    const columns = {
      id: 'x',
      at: START + 1,
      project_id: 'x',
      actor_type: 'system',
      actor_id: 'x',
      action: 'x',
      target_type: 'x',
      target_id: 'x',
      outcome: 'denied',
      code: 'internal',
      omitted: 1,
      request_id: 'x',
      ip: 'x',
    };
    await using audit = await openAudit();
    await audit.fill(3);
    const query = audit.db.selectFrom('audit_events').selectAll().where('seq', '=', 2);
    const before = await query.executeTakeFirstOrThrow();
    for (const [column, value] of Object.entries(columns)) {
      await audit.db
        .updateTable('audit_events')
        .set({ [column]: value })
        .where('seq', '=', 2)
        .execute();
      assert.deepEqual(
        (await audit.verify()).problems.map(({ seq, kind }) => [seq, kind]),
        [[2, 'changed']],
        column,
      );
      await audit.db.updateTable('audit_events').set(before).where('seq', '=', 2).execute();
    }
    assert.equal((await audit.verify()).problemCount, 0);
  });

  it('the verification of a chain finds events that were removed: at the beginning, in the middle and at the end', async () => {
    for (const [first, last] of [
      [1, 1],
      [600, 700],
      [1200, 1200],
      [1, 1200],
    ] as const) {
      const found = await problemsAfter(({ db }) =>
        db.deleteFrom('audit_events').where('seq', '>=', first).where('seq', '<=', last).execute(),
      );
      assert.equal(found[0], `${first} removed`);
    }
  });

  it('the verification of a chain finds an end that was removed together with its record, by the signature', async () => {
    const found = await problemsAfter(async ({ db }) => {
      await db.deleteFrom('audit_events').where('seq', '>', 1190).execute();
      const { hash } = await db
        .selectFrom('audit_events')
        .select('hash')
        .where('seq', '=', 1190)
        .executeTakeFirstOrThrow();
      await db.updateTable('audit_heads').set({ last_seq: 1190, last_hash: hash }).execute();
    });
    assert.deepEqual(found, ['1190 changed']);
  });

  it('the verification of a chain finds a removed record of the newest event', async () => {
    assert.deepEqual(await problemsAfter(({ db }) => db.deleteFrom('audit_heads').execute()), ['1200 removed']);
  });

  it('the verification of a chain finds an event that was inserted, in the middle and at the end', async () => {
    const insert = (after: number) =>
      problemsAfter(async ({ db }) => {
        for (let seq = 1200; seq > after; seq -= 1) {
          await db
            .updateTable('audit_events')
            .set({ seq: seq + 1 })
            .where('seq', '=', seq)
            .execute();
        }
        const before = await db
          .selectFrom('audit_events')
          .selectAll()
          .where('seq', '=', after)
          .executeTakeFirstOrThrow();
        await db
          .insertInto('audit_events')
          .values({ ...before, seq: after + 1, prev_hash: before.hash })
          .execute();
      });
    assert.equal((await insert(700))[0], '701 changed');
    assert.deepEqual(await insert(1200), ['1201 inserted']);
  });
});

describe('the retention of audit events', () => {
  it('the retention of audit events deletes old events, and what is left verifies by the signed cut', async () => {
    await using audit = await openAudit();
    await audit.fill(1200);
    audit.clock.at += 1000;
    await audit.fill(5);
    assert.equal(await audit.retention.forget(START + 1000), 1200);
    assert.deepEqual(
      (await audit.events()).map(({ seq }) => seq),
      [1201, 1202, 1203, 1204, 1205],
    );
    const verified = await audit.verify();
    assert.deepEqual([verified.problems, verified.events], [[], 5]);
    await audit.fill(1);
    assert.equal((await audit.verify()).problemCount, 0);
  });

  it('the retention of audit events leaves a chain that verifies when every event is deleted', async () => {
    await using audit = await openAudit();
    await audit.fill(3);
    await audit.retention.forget(START + 1);
    assert.deepEqual([await audit.events(), (await audit.verify()).problems], [[], []]);
    await audit.fill(1);
    assert.deepEqual([(await audit.events()).map(({ seq }) => seq), (await audit.verify()).problems], [[4], []]);
  });

  it('the retention of audit events is not a cover for removed events: a cut that the service did not sign is found', async () => {
    await using audit = await openAudit();
    await audit.fill(5);
    const { hash } = await audit.db
      .selectFrom('audit_events')
      .select('hash')
      .where('seq', '=', 3)
      .executeTakeFirstOrThrow();
    await audit.db.deleteFrom('audit_events').where('seq', '<=', 3).execute();
    await audit.db
      .insertInto('audit_cuts')
      .values({ org_id: ORG, seq: 3, hash, signature: '0'.repeat(64) })
      .execute();
    assert.deepEqual(
      (await audit.verify()).problems.map(({ seq, kind }) => [seq, kind]),
      [[3, 'changed']],
    );
  });

  it('the retention of audit events finds an event that is inserted before the cut', async () => {
    await using audit = await openAudit();
    await audit.fill(3);
    const row = await audit.db.selectFrom('audit_events').selectAll().where('seq', '=', 2).executeTakeFirstOrThrow();
    await audit.retention.forget(START + 1);
    await audit.db.insertInto('audit_events').values(row).execute();
    assert.deepEqual(
      (await audit.verify()).problems.map(({ seq, kind }) => [seq, kind]),
      [[2, 'inserted']],
    );
  });
});

describe('pages of audit events', () => {
  it('pages of audit events have the events that match every filter', async () => {
    await using audit = await openAudit();
    await audit.log.append({ ...created('sbx_1'), projectId: 'prj_1' as ProjectId });
    audit.clock.at += 1000;
    const actor = { type: 'operator', id: 'operator' } as const;
    await audit.log.append({ ...created('key_2'), actor, action: 'api_key.created' });
    const seqs = async (filter: object) =>
      (await audit.feed.read({ orgId: ORG, ...filter }, 0, 10)).data.map(({ seq }) => seq);
    assert.deepEqual(await seqs({}), [1, 2]);
    assert.deepEqual(await seqs({ actor: 'operator' }), [2]);
    assert.deepEqual(await seqs({ action: 'sandbox.created' }), [1]);
    assert.deepEqual(await seqs({ target: 'key_2' }), [2]);
    assert.deepEqual(await seqs({ from: START + 1000 }), [2]);
    assert.deepEqual(await seqs({ to: START + 1000 }), [1]);
    assert.deepEqual(await seqs({ projectIds: ['prj_1'] }), [1]);
    assert.deepEqual(await seqs({ orgId: 'org_2' }), []);
  });

  it('pages of audit events follow each other until there are no more', async () => {
    await using audit = await openAudit();
    await audit.fill(25);
    const first = await audit.feed.read({ orgId: ORG }, 0, 20);
    const second = await audit.feed.read({ orgId: ORG }, first.nextSeq, 20);
    assert.deepEqual([first.hasMore, second.hasMore, second.data.length, second.nextSeq], [true, false, 5, 25]);
  });
});
