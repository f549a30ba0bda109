/** One content in the hands of several servers, which have one database and one store. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { FakeClock } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { contentLocksOf } from '../../../testing/coordination.ts';
import type { SandboxesWorld } from '../../../testing/sandboxes.ts';
import { DEFAULT_PROJECT, ORG } from '../../../testing/seeded-organizations.ts';
import { NEEDS_POSTGRES, TestServers } from '../../../testing/servers.ts';
import { SILENT } from '../../../testing/silent.ts';
import { randomIds } from '../../platform/base/id-source.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { ArtifactRecord } from './artifact.ts';
import { ArtifactContents } from './artifact-contents.ts';
import { KeepArtifact } from './keep-artifact.ts';
import type { ContentAsides } from './store/artifact-store.ts';
import { LocalStore } from './store/local-store.ts';
import { Staging } from './store/staging.ts';

/** Artifacts that two servers keep and delete, in all, with a few contents. */
const ROUNDS = 300;
const WORKERS = 5;
const CONTENTS = 3;

/** A store that waits with its answer whether a content is there, except at first. */
class HeldStore extends LocalStore {
  readonly asked = Promise.withResolvers<void>();
  readonly goOn = Promise.withResolvers<void>();
  answersAtOnce = 0;

  override async has(name: string): Promise<boolean> {
    const isThere = await super.has(name);
    this.answersAtOnce -= 1;
    if (this.answersAtOnce >= 0) return isThere;
    this.asked.resolve();
    await this.goOn.promise;
    return isThere;
  }
}

/** A store whose server pauses during a removal: before the file is renamed, or before it is deleted. */
class PausedStore extends LocalStore {
  override readonly asides: ContentAsides;
  readonly pauses = Promise.withResolvers<void>();
  readonly goOn = Promise.withResolvers<void>();

  constructor(folder: string, before: 'rename' | 'delete') {
    super(folder);
    const asides = new LocalStore(folder).asides ?? assert.fail();
    const pauseBefore = async (step: typeof before) => {
      if (step !== before) return;
      this.pauses.resolve();
      await this.goOn.promise;
    };
    this.asides = {
      list: () => asides.list(),
      setAside: async (name) => {
        await pauseBefore('rename');
        const content = await asides.setAside(name);
        return content && { ...content, remove: () => pauseBefore('delete').then(content.remove) };
      },
    };
  }
}

describe('a content that several servers use', { skip: NEEDS_POSTGRES }, () => {
  let folder: string;
  let open: TestServers;
  let sandboxId: ArtifactRecord['sandboxId'];
  const clock = new FakeClock(Date.now());
  const { signal } = new AbortController();

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-contents-'));
    open = await TestServers.open(2);
    sandboxId = (await first().create()).id;
  });
  afterEach(async () => {
    await open[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const first = () => open.servers[0] ?? assert.fail();
  const second = () => open.servers[1] ?? assert.fail();
  const newStore = () => new LocalStore(join(folder, 'contents'));

  const storedFiles = () => {
    const files = readdirSync(join(folder, 'contents'), { recursive: true, withFileTypes: true });
    return files.filter((file) => file.isFile()).map(({ name }) => name);
  };
  /** Ends transactions and their locks, as PostgreSQL does after 30 s without a statement. */
  const endOtherConnections = (db: Database) =>
    sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`.execute(db);

  /** The services that each server has of its own; `store` is a folder that all of them use. */
  function artifactsOf(server: SandboxesWorld, store = newStore()) {
    const { db, transactions, artifacts } = server;
    const contents = new ArtifactContents({
      db,
      transactions,
      store,
      artifacts,
      locks: contentLocksOf(server),
      clock,
      log: SILENT,
    });
    const stagingDir = join(folder, 'staging');
    const settings = { url: '', stagingDir, maxBytes: 1000, retentionMs: undefined, publicUrl: undefined };
    const staging = new Staging(stagingDir, randomIds);
    const keeper = new KeepArtifact({ ...server, contents, staging, settings, clock, ids: randomIds });
    const keep = (content: string) => {
      const artifact = { orgId: ORG, projectId: DEFAULT_PROJECT, sandboxId, name: 'name', path: undefined };
      const rest = { contentType: 'text/plain', metadata: {}, idempotencyRecordId: undefined };
      return keeper.keep(
        { signal: new AbortController().signal, ...UNAUDITED },
        { ...artifact, ...rest },
        { open: () => Readable.from([Buffer.from(content)]) },
      );
    };
    return { contents, keep };
  }

  it('a content that several servers use is stored again if another server removes it before the record is written', async () => {
    const store = new HeldStore(join(folder, 'contents'));
    const [one, other] = [artifactsOf(first()), artifactsOf(second(), store)];
    const released = await one.keep('twins');
    const keeping = other.keep('twins');
    await store.asked.promise;
    await one.contents.release(released);
    store.goOn.resolve();
    const { sha256 } = await keeping;
    assert.equal(await newStore().has(sha256), true);
  });

  it('a content that several servers use is not removed by another server between the look for it and its record', async () => {
    const store = new HeldStore(join(folder, 'contents'));
    store.answersAtOnce = 1;
    const [one, other] = [artifactsOf(first()), artifactsOf(second(), store)];
    const released = await one.keep('twins');
    const keeping = other.keep('twins');
    // The second look holds the content until the record is written.
    await store.asked.promise;
    let isReleased = false;
    const releasing = one.contents.release(released).then(() => {
      isReleased = true;
    });
    const waits = async () => {
      const { rows } = await sql`
        select from pg_locks join pg_database on oid = database
        where datname = current_database() and locktype = 'advisory' and not granted`.execute(first().db);
      return rows.length > 0;
    };
    await eventually(async () => isReleased || (await waits()), { because: 'the release waits' });
    store.goOn.resolve();
    const { sha256 } = await keeping;
    await releasing;
    assert.equal(await newStore().has(sha256), true);
  });

  for (const before of ['rename', 'delete'] as const) {
    it(`a content that several servers use is there if a server pauses before it can ${before} the content, and loses its lock while another stores it`, async () => {
      const store = new PausedStore(join(folder, 'contents'), before);
      const [one, other] = [artifactsOf(first(), store), artifactsOf(second())];
      const released = await one.keep('twins');
      const releasing = one.contents.release(released);
      await store.pauses.promise;
      await endOtherConnections(second().db);
      const kept = await other.keep('twins');
      store.goOn.resolve();
      await releasing;
      assert.equal(await text(await other.contents.read(kept, undefined, signal)), 'twins');
      assert.deepEqual(storedFiles(), [kept.sha256]);
    });
  }

  it(`a content that several servers use is there as long as one of its artifacts, while both keep and delete it ${ROUNDS} times`, async () => {
    const servers = [artifactsOf(first()), artifactsOf(second())];
    const live = new Set<ArtifactRecord>();
    const rounds = ROUNDS / (servers.length * WORKERS);
    const work = async ({ contents, keep }: (typeof servers)[number], reader: ArtifactContents, worker: number) => {
      for (let round = 1; round <= rounds; round += 1) {
        const record = await keep(`text ${round % CONTENTS}`);
        assert.equal(await text(await reader.read(record, undefined, signal)), `text ${round % CONTENTS}`);
        if (round === rounds && worker === 0) live.add(record);
        else await contents.release(record);
      }
    };
    // The other server reads each artifact, and may be removing the content for its own at this moment.
    await Promise.all(
      servers.flatMap((server, index) => {
        const { contents: reader } = servers[1 - index] ?? assert.fail();
        return Array.from({ length: WORKERS }, (_, worker) => work(server, reader, worker));
      }),
    );
    const kept = new Set([...live].map(({ sha256 }) => sha256));
    const stored = (await Array.fromAsync(newStore().list())).map(({ name }) => name);
    assert.deepEqual(new Set(stored), kept);
  });

  it('a content that several servers use is received beside what other servers receive, and removed once its server no longer lives', async () => {
    const receive = async (serverId: string) => {
      const staging = new Staging(join(folder, 'staging'), randomIds, { serverId });
      const { file } = await staging.take({ orgId: ORG, open: () => Readable.from([Buffer.from('arriving')]) }, 100);
      return { staging, name: basename(file) };
    };
    const received = async (living: string[]) => {
      await own.staging.clearOfDead(async () => new Set(living));
      return readdirSync(join(folder, 'staging')).sort();
    };
    const [own, other, dead] = [await receive('srv_a'), await receive('srv_ab'), await receive('srv_c')];
    assert.deepEqual(await received(['srv_ab', 'srv_c']), [own.name, other.name, dead.name]);
    assert.deepEqual(await received(['srv_ab']), [own.name, other.name]);
  });
});
