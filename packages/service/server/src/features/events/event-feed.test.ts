import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { OrgId, Preview, PreviewId, ProjectId, ResourceEvent } from '@cloche/contract';
import { SequentialIds } from '@cloche/testkit';
import { settled } from '@cloche/testkit/eventually';
import type { KyselyPlugin, PluginTransformQueryArgs, PluginTransformResultArgs } from 'kysely';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { Changes } from '../../platform/base/changes.ts';
import { systemClock } from '../../platform/base/clock.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { EventOutbox, type NewEvent } from '../../platform/outbox/event-outbox.ts';
import { EventFeed, type EventFilter } from './event-feed.ts';

const ORG = 'org_1' as OrgId;
const ALL: EventFilter = { orgId: ORG, projectIds: undefined, types: undefined };

function event(type: 'preview.created' | 'preview.deleted' = 'preview.created', project = 'prj_1'): NewEvent {
  const preview = { id: 'prv_1' as PreviewId } as Preview;
  return { type, orgId: ORG, projectId: project as ProjectId, data: { preview } };
}

class CountedStatements implements KyselyPlugin {
  count = 0;
  failure: Error | undefined;

  transformQuery({ node }: PluginTransformQueryArgs) {
    this.count += 1;
    if (this.failure) throw this.failure;
    return node;
  }

  transformResult({ result }: PluginTransformResultArgs) {
    return Promise.resolve(result);
  }
}

/** @param lookAgainMs how often streams look for events of other servers, of which they hear nothing; never by default */
async function openFeed(lookAgainMs?: number) {
  const db = await openTestDatabase();
  const transactions = new Transactions(db);
  const own = new EventOutbox(db, systemClock, new SequentialIds());
  const others = new EventOutbox(db, systemClock, new SequentialIds());
  const peers = lookAgainMs === undefined ? undefined : { tell: () => undefined, lookAgainMs };
  const statements = new CountedStatements();
  const append = (...events: NewEvent[]) =>
    transactions.run(async (tx) => {
      for (const each of events) await own.append(tx, each);
    });
  return {
    db,
    feed: new EventFeed(db.withPlugin(statements), own, new Changes(peers)),
    statements,
    append,
    outbox: own,
    appendElsewhere: (each: NewEvent) => transactions.run((tx) => others.append(tx, each)),
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

/** Returns the numbers of the next `count` events. */
async function take(events: AsyncGenerator<ResourceEvent>, count: number): Promise<number[]> {
  const seqs: number[] = [];
  while (seqs.length < count) {
    const { value } = await events.next();
    seqs.push((value as ResourceEvent).seq);
  }
  return seqs;
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe('a page of events', () => {
  it('a page of events continues where the one before ended, until there are no more', async () => {
    await using world = await openFeed();
    await world.append(...Array.from({ length: 25 }, () => event()));
    const seqs: number[] = [];
    let pages = 0;
    for (let afterSeq = 0, hasMore = true; hasMore; pages += 1) {
      const page = await world.feed.read(ALL, afterSeq, 10);
      seqs.push(...page.data.map(({ seq }) => seq));
      ({ nextSeq: afterSeq, hasMore } = page);
    }
    assert.deepEqual([seqs, pages], [upTo(25), 3]);
  });

  it('a page of events looks through a bounded number of events, and says that there are more', async () => {
    await using world = await openFeed();
    await world.append(...Array.from({ length: 1500 }, () => event()), event('preview.deleted'));
    const filter = { ...ALL, types: ['preview.deleted'] as const };
    const first = await world.feed.read(filter, 0, 10);
    assert.deepEqual([first.data, first.hasMore], [[], true]);
    assert.ok(first.nextSeq > 0 && first.nextSeq < 1501);
    const second = await world.feed.read(filter, first.nextSeq, 10);
    assert.deepEqual([second.data.map(({ seq }) => seq), second.nextSeq, second.hasMore], [[1501], 1501, false]);
  });

  it('a page of events has the events of the projects and types that it is filtered by, and of no project without a filter', async () => {
    await using world = await openFeed();
    const { projectId: _, ...ofNone } = event();
    await world.append(event(), event('preview.deleted', 'prj_2'), ofNone as NewEvent);
    const seqs = async (filter: Partial<EventFilter>) =>
      (await world.feed.read({ ...ALL, ...filter }, 0, 10)).data.map(({ seq }) => seq);
    assert.deepEqual(await seqs({}), [1, 2, 3]);
    assert.deepEqual(await seqs({ projectIds: ['prj_2', 'prj_3'] }), [2]);
    assert.deepEqual(await seqs({ projectIds: [] }), []);
    assert.deepEqual(await seqs({ types: ['preview.created'] }), [1, 3]);
    assert.deepEqual(await seqs({ orgId: 'org_2' }), []);
  });

  it('a page of events never continues beyond the last event, whatever it is asked for and whatever is forgotten', async () => {
    await using world = await openFeed();
    assert.deepEqual(await world.feed.read(ALL, 7, 10), { data: [], nextSeq: 0, hasMore: false });
    await world.append(event(), event(), event());
    assert.deepEqual(await world.feed.read(ALL, Number.MAX_SAFE_INTEGER, 10), {
      data: [],
      nextSeq: 3,
      hasMore: false,
    });
    await world.outbox.forget(systemClock.now() + 1000);
    assert.deepEqual(await world.feed.read(ALL, 1, 10), { data: [], nextSeq: 3, hasMore: false });
  });
});

describe('a stream of events', () => {
  it('a stream of events has the earlier events and each new one, woken by its commit', async () => {
    await using world = await openFeed();
    await world.append(...Array.from({ length: 150 }, () => event()));
    const abort = new AbortController();
    const events = world.feed.follow(ALL, 0, abort.signal);
    assert.deepEqual(await take(events, 150), upTo(150));
    const next = take(events, 3);
    await world.append(event(), event());
    await world.append(event());
    assert.deepEqual(await next, [151, 152, 153]);
    abort.abort();
    await assert.rejects(events.next(), { name: 'AbortError' });
  });

  it('misses nothing that is appended while it reads or hands out events', async () => {
    await using world = await openFeed();
    const events = world.feed.follow(ALL, 0, AbortSignal.timeout(60_000));
    const writing = (async () => {
      for (let count = 0; count < 200; count += 1) await world.append(event());
    })();
    assert.deepEqual(await take(events, 200), upTo(200));
    await writing;
    await events.return(undefined as never);
  });

  it('a stream of events finds what another server appended without being woken', async () => {
    await using world = await openFeed(10);
    const events = world.feed.follow(ALL, 0, AbortSignal.timeout(60_000));
    const first = take(events, 1);
    await world.appendElsewhere(event());
    assert.deepEqual(await first, [1]);
    await events.return(undefined as never);
  });

  it('a stream of events adds nothing to its signal, however often it looks again', async () => {
    await using world = await openFeed(1);
    const abort = new AbortController();
    const events = world.feed.follow(ALL, 0, abort.signal);
    const next = events.next();
    const counts: number[] = [];
    for (let looks = 0; looks < 30; looks += 1) {
      await setTimeout(2);
      counts.push(getEventListeners(abort.signal, 'abort').length);
    }
    assert.ok(Math.max(...counts) <= 1, String(counts));
    abort.abort();
    await assert.rejects(next, { name: 'AbortError' });
    assert.equal(getEventListeners(abort.signal, 'abort').length, 0);
  });

  it('a stream of events skips what does not match, and goes on after it', async () => {
    await using world = await openFeed();
    const events = world.feed.follow({ ...ALL, projectIds: ['prj_2'] }, 0, AbortSignal.timeout(60_000));
    const first = take(events, 1);
    await world.append(...Array.from({ length: 1200 }, () => event()));
    await world.append(event('preview.created', 'prj_2'));
    assert.deepEqual(await first, [1201]);
    await events.return(undefined as never);
  });
});

describe('the streams of an organization', () => {
  /** Appends `events` events one by one, each when all of `streams` streams have the one before. */
  async function cost(world: Awaited<ReturnType<typeof openFeed>>, streams: number, events: number) {
    const abort = new AbortController();
    const following = Array.from({ length: streams }, () => world.feed.follow(ALL, 0, abort.signal));
    const next = () => Promise.all(following.map((stream) => stream.next()));
    for (let warming = 0; warming < 5; warming += 1) await Promise.all([next(), world.append(event())]);
    const before = { ...process.cpuUsage(), statements: world.statements.count };
    for (let appended = 0; appended < events; appended += 1) await Promise.all([next(), world.append(event())]);
    const { user, system } = process.cpuUsage(before);
    const taken = { microseconds: user + system, statements: world.statements.count - before.statements };
    abort.abort();
    await Promise.allSettled(following.map((stream) => stream.next()));
    return taken;
  }

  it('the streams of an organization read each event once, so that two hundred cost a small multiple of one', async () => {
    await using alone = await openFeed();
    await using many = await openFeed();
    const one = await cost(alone, 1, 50);
    const all = await cost(many, 200, 50);
    assert.ok(all.statements <= one.statements + 1, `${all.statements} statements instead of ${one.statements}`);
    const ratio = all.microseconds / one.microseconds;
    // Two hundred without a shared reader take at least as many times as long.
    assert.ok(ratio < 60, `${ratio.toFixed(1)} times the processor time of one`);
  });

  it('the streams of an organization read nothing while nothing is appended, without other servers', async () => {
    await using world = await openFeed();
    const abort = new AbortController();
    const following = Array.from({ length: 200 }, () => world.feed.follow(ALL, 0, abort.signal));
    const waiting = Promise.allSettled(following.map((stream) => stream.next()));
    // Longer than the second after which a stream looks again if there may be other servers.
    await settled(() => world.statements.count, { forMs: 1_300, within: 30_000 });
    abort.abort();
    await waiting;
  });

  it('each get every event, although some take none for a long time', async () => {
    await using world = await openFeed();
    const signal = AbortSignal.timeout(60_000);
    const [quick, slow] = [world.feed.follow(ALL, 0, signal), world.feed.follow(ALL, 0, signal)];
    const first = Promise.all([take(quick, 1), take(slow, 1)]);
    await world.append(event());
    assert.deepEqual(await first, [[1], [1]]);
    for (let round = 0; round < 10; round += 1) {
      await world.append(...Array.from({ length: 60 }, () => event()));
      assert.equal((await take(quick, 60)).at(-1), 61 + 60 * round);
    }
    assert.deepEqual(await take(slow, 600), upTo(601, 2));
    await Promise.all([quick, slow].map((stream) => stream.return(undefined as never)));
  });

  it('the streams of an organization end with the error when events cannot be read, and later ones read again', async () => {
    await using world = await openFeed();
    const streams = [1, 2].map(() => world.feed.follow(ALL, 0, AbortSignal.timeout(60_000)));
    const first = Promise.all(streams.map((stream) => stream.next()));
    await world.append(event());
    await first;
    const ends = Promise.allSettled(streams.map((stream) => stream.next()));
    world.statements.failure = new Error('the database is away');
    await world.append(event());
    assert.deepEqual(
      (await ends).map((end) => end.status === 'rejected' && end.reason),
      [world.statements.failure, world.statements.failure],
    );
    world.statements.failure = undefined;
    const later = world.feed.follow(ALL, 1, AbortSignal.timeout(60_000));
    assert.deepEqual(await take(later, 1), [2]);
    await later.return(undefined as never);
  });
});
