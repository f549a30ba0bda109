/** Announcements of the ends of pauses, on a real database and a fake runtime. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { openPauses, pause, resume } from '../../../testing/pauses.ts';
import { repositoryOf } from '../../../testing/sandbox-repository.ts';
import { RetentionNotices } from './retention.ts';

type World = Awaited<ReturnType<typeof openPauses>>;
const NOTICE_MS = LIMITS.retentionNoticeMs;
const WEEK_MS = 7 * NOTICE_MS;

/** Returns for each announcement the end that it names, oldest first. */
async function announced({ db }: World): Promise<string[]> {
  const query = db.selectFrom('events').select('data').where('type', '=', 'sandbox.retention_ending');
  const rows = await query.orderBy('seq').execute();
  return rows.map(({ data }) => JSON.parse(data).sandbox.expiresAt);
}

const noticesOf = (world: World) => new RetentionNotices({ sandboxes: repositoryOf(world), clock: world.clock });

/** Advances the clock and announces what is due. */
async function passAfter(world: World, ms: number): Promise<string[]> {
  world.clock.advance(ms);
  await noticesOf(world).pass();
  return announced(world);
}

describe('the end of a pause', () => {
  it('the end of a pause is announced once, 24 hours before it, by the job of the service', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { expiresAt } = await pause(world, id, { retainMs: WEEK_MS });
    assert.deepEqual(await passAfter(world, WEEK_MS - NOTICE_MS - 1), []);
    world.clock.advance(1);
    await world.until(async () => (await announced(world)).length > 0);
    assert.deepEqual(await passAfter(world, NOTICE_MS - 1), [expiresAt]);
    assert.ok((await world.get(id)).paused);
    assert.ok((await resume(world, id)).resumed, 'it can still be resumed');
  });

  it('the end of a pause is announced by one of several servers', async () => {
    await using world = await openPauses();
    const ids = await Promise.all(Array.from({ length: 10 }, () => world.createReady()));
    for (const id of ids) await pause(world, id, { retainMs: WEEK_MS });
    world.clock.advance(WEEK_MS - NOTICE_MS);
    await Promise.all(Array.from({ length: 10 }, () => noticesOf(world).pass()));
    assert.equal((await announced(world)).length, ids.length);
  });

  it('the end of a pause is announced again after an extension, and for the next pause', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const ends = [(await pause(world, id, { retainMs: WEEK_MS })).expiresAt];
    assert.deepEqual(await passAfter(world, WEEK_MS - NOTICE_MS), ends);
    ends.push((await pause(world, id, { retainMs: WEEK_MS })).expiresAt);
    assert.deepEqual(await passAfter(world, NOTICE_MS), ends.slice(0, 1), 'the extension has moved it');
    assert.deepEqual(await passAfter(world, WEEK_MS - 2 * NOTICE_MS), ends);
    await resume(world, id);
    ends.push((await pause(world, id, { retainMs: WEEK_MS })).expiresAt);
    assert.deepEqual(await passAfter(world, WEEK_MS - NOTICE_MS), ends);
  });

  it('the end of a pause is not announced when it was at most 24 hours away from the beginning, or was set so', async () => {
    await using world = await openPauses();
    const [short, shortened] = [await world.createReady(), await world.createReady()];
    await pause(world, short, { retainMs: NOTICE_MS });
    await pause(world, shortened, { retainMs: WEEK_MS });
    await pause(world, shortened, { retainMs: NOTICE_MS });
    assert.deepEqual(await passAfter(world, NOTICE_MS - 1), []);
    await pause(world, short, { retainMs: NOTICE_MS + 1 });
    assert.equal((await passAfter(world, 1)).length, 1, 'the control');
  });

  it('the end of a pause is not announced when a wake came first, or when it is over', async () => {
    await using world = await openPauses();
    const [woken, over] = [await world.createReady({ ttlMs: 60_000 }), await world.createReady()];
    await pause(world, woken, { retainMs: WEEK_MS });
    await pause(world, over, { retainMs: WEEK_MS });
    await resume(world, woken, { ttlMs: NOTICE_MS });
    world.clock.advance(WEEK_MS);
    await noticesOf(world).pass();
    await world.until(async () => (await world.get(over)).status === 'destroyed');
    assert.deepEqual(await announced(world), []);
  });
});
