import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { OrgId, Preview, PreviewId, ProjectId, ResourceEvent } from '@cloche/contract';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { Transactions } from '../db/transactions.ts';
import { EventOutbox, type NewEvent, toEvent } from './event-outbox.ts';

const ORG = 'org_1' as OrgId;
const PROJECT = 'prj_1' as ProjectId;

function created(name: string, orgId = ORG): NewEvent {
  const preview = { id: `prv_${name}` as PreviewId } as Preview;
  return { type: 'preview.created', orgId, projectId: PROJECT, data: { preview } };
}

async function openOutbox() {
  const db = await openTestDatabase();
  const clock = new FakeClock();
  const outbox = new EventOutbox(db, clock, new SequentialIds());
  const heard: ResourceEvent[] = [];
  outbox.onCommitted((event) => heard.push(event));
  const transactions = new Transactions(db);
  const stored = async (orgId = ORG, afterSeq = 0) => {
    const query = db.selectFrom('events').selectAll().where('org_id', '=', orgId).where('seq', '>', afterSeq);
    return (await query.orderBy('seq').execute()).map(toEvent);
  };
  /** Inserts an organization, as a change that the event is about, and then fails if asked. */
  const change = (name: string, { orgId = ORG, fail = false } = {}) =>
    transactions.run(async (tx) => {
      await tx.db.insertInto('orgs').values({ id: name, name, created_at: 0 }).execute();
      await outbox.append(tx, created(name, orgId));
      await setImmediate();
      if (fail) throw new Error('undone');
    });
  return { db, clock, outbox, transactions, heard, stored, change, [Symbol.asyncDispose]: () => db.destroy() };
}

describe('the outbox', () => {
  it('the outbox has an event exactly when its change is in the database', async () => {
    await using world = await openOutbox();
    await assert.rejects(world.change('undone', { fail: true }), /undone/);
    assert.deepEqual([await world.stored(), world.heard], [[], []]);
    await world.change('kept');
    const [event] = await world.stored();
    assert.deepEqual(event, {
      seq: 1,
      id: event?.id,
      at: new Date(world.clock.now()).toISOString(),
      ...created('kept'),
    });
    assert.match(event?.id ?? '', /^evt_/);
    assert.deepEqual(world.heard, [event]);
  });

  it('the outbox numbers the events of each organization from 1 without gaps, whatever is undone', async () => {
    await using world = await openOutbox();
    const names = Array.from({ length: 60 }, (_, index) => `n${index}`);
    const other = 'org_2' as OrgId;
    await Promise.allSettled(
      names.map((name, index) => world.change(name, { fail: index % 3 === 0, orgId: index % 5 === 0 ? other : ORG })),
    );
    const kept = names.filter((_, index) => index % 3 !== 0);
    const events = [...(await world.stored()), ...(await world.stored(other))];
    assert.deepEqual(
      events.map(({ data }) => ('preview' in data ? data.preview.id : '')).sort(),
      kept.map((name) => `prv_${name}`).sort(),
    );
    for (const orgId of [ORG, other]) {
      const numbers = events.filter((event) => event.orgId === orgId).map(({ seq }) => seq);
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index + 1),
      );
    }
  });

  it('the outbox gives each event once to a reader that continues after the last one, while events are appended', async () => {
    await using world = await openOutbox();
    let isWriting = true;
    const writing = Promise.all(Array.from({ length: 50 }, (_, index) => world.change(`n${index}`))).finally(() => {
      isWriting = false;
    });
    const seen: number[] = [];
    do {
      seen.push(...(await world.stored(ORG, seen.at(-1) ?? 0)).map(({ seq }) => seq));
      await setImmediate();
    } while (isWriting);
    await writing;
    seen.push(...(await world.stored(ORG, seen.at(-1) ?? 0)).map(({ seq }) => seq));
    assert.deepEqual(
      seen,
      Array.from({ length: 50 }, (_, index) => index + 1),
    );
  });

  it('the outbox forgets events after their time, and numbers the next ones as if it had not', async () => {
    await using world = await openOutbox();
    for (let count = 0; count < 1201; count += 1) {
      await world.transactions.run((tx) => world.outbox.append(tx, created(`${count}`)));
    }
    world.clock.advance(1000);
    await world.change('young');
    assert.equal(await world.outbox.forget(world.clock.now()), 1201);
    assert.deepEqual(
      (await world.stored()).map(({ seq }) => seq),
      [1202],
    );
    await world.change('next');
    assert.equal((await world.stored()).at(-1)?.seq, 1203);
  });
});
