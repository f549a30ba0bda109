import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ArtifactId, OrgId, ProjectId, SandboxId } from '@cloche/contract';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { contentLocksOf } from '../../../testing/coordination.ts';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { ProjectAccess } from '../../platform/access/project-access.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { SqlProjectRepository } from '../../platform/tenancy/project-repository.ts';
import { ArtifactContents } from './artifact-contents.ts';
import type { SqlArtifactRepository } from './artifact-repository.ts';
import { ArtifactService } from './artifact-service.ts';
import { KeepArtifact } from './keep-artifact.ts';
import { NoAnswerError, StoreError } from './store/artifact-store.ts';
import { LocalStore } from './store/local-store.ts';
import { Staging } from './store/staging.ts';

const HOUR_MS = 3_600_000;

/** A store as a bucket is: the answer to a removal may be lost, and the request arrive later. */
class LateStore extends LocalStore {
  override readonly asides = undefined;
  answer: Error | undefined = new NoAnswerError('no answer');
  readonly #underWay: string[] = [];

  override async prepareRemoval(name: string) {
    const send = async () => {
      this.#underWay.push(name);
      if (this.answer) throw this.answer;
    };
    return { arrivesWithinMs: HOUR_MS, send };
  }

  async arrive(): Promise<void> {
    for (const name of this.#underWay.splice(0)) await super.remove(name);
  }
}

describe('contents of artifacts', () => {
  let folder: string;
  let world: SandboxesWorld;
  let clock: FakeClock;
  let store: LocalStore;
  let artifacts: SqlArtifactRepository;
  let contents: ArtifactContents;
  let keeper: KeepArtifact;
  let sandboxId: SandboxId;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-contents-'));
    world = await openSandboxes();
    sandboxId = (await world.create()).id;
    clock = new FakeClock(Date.now());
    store = new LocalStore(join(folder, 'contents'));
    artifacts = world.artifacts;
    contents = new ArtifactContents({
      db: world.db,
      transactions: world.transactions,
      store,
      artifacts,
      locks: contentLocksOf(world),
      clock,
      log: pino({ level: 'silent' }),
    });
    keeper = keeperOf(contents);
  });
  afterEach(async () => {
    await world[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const ids = new SequentialIds();
  const keeperOf = (of: ArtifactContents) => {
    const stagingDir = join(folder, 'staging');
    const settings = { url: '', stagingDir, maxBytes: 1000, retentionMs: HOUR_MS, publicUrl: undefined };
    const staging = new Staging(stagingDir, ids);
    return new KeepArtifact({ contents: of, artifacts, quotas: world.quotas, staging, settings, clock, ids });
  };
  const artifactOf = (name: string) => ({
    orgId: 'org_1' as OrgId,
    projectId: 'prj_default' as ProjectId,
    sandboxId,
    name,
    path: undefined,
    contentType: 'text/plain',
    metadata: {},
    idempotencyRecordId: undefined,
  });
  const forever = new AbortController().signal;
  const keep = (text: string, source: Readable = Readable.from([Buffer.from(text)])) =>
    keeper.keep({ signal: forever, ...UNAUDITED }, artifactOf(text), { open: () => source });
  const staged = () => readdirSync(join(folder, 'staging'));

  it('contents of artifacts go when the time of their artifacts is up, and not a moment before', async () => {
    const { sha256 } = await keep('for an hour');
    const service = new ArtifactService(
      artifacts,
      contents,
      new ProjectAccess(new SqlProjectRepository(world.db)),
      clock,
    );
    clock.advance(HOUR_MS - 1);
    assert.equal(await service.expire(), 0);
    clock.advance(1);
    assert.equal(await service.expire(), 1);
    assert.equal(await store.has(sha256), false);
    assert.equal(await service.expire(), 0);
  });

  it('contents of artifacts that a crash has left without an artifact are deleted after an hour; those of artifacts stay', async () => {
    const { sha256 } = await keep('kept');
    const file = join(folder, 'orphan');
    writeFileSync(file, 'orphan');
    const digest = createHash('sha256').update('orphan').digest('hex');
    await store.put(file, { sha256: digest, sizeBytes: 6 });
    assert.equal(await contents.removeOrphans(), 0);
    clock.advance(HOUR_MS + 60_000);
    assert.equal(await contents.removeOrphans(), 1);
    assert.deepEqual([await store.has(digest), await store.has(sha256)], [false, true]);
  });

  it('contents of artifacts that a server has quarantined before it ended are put back if an artifact uses them, and else removed', async () => {
    const [used, unused] = [await keep('used'), await keep('unused')];
    await artifacts.markDeleted(UNAUDITED, unused.id, clock.now());
    for (const { sha256 } of [used, unused]) await store.asides?.setAside(sha256);
    assert.equal(await contents.removeOrphans(), 1);
    assert.deepEqual([await store.has(used.sha256), await store.has(unused.sha256)], [true, false]);
    assert.deepEqual(await Array.fromAsync(store.asides?.list() ?? []), []);
  });

  it('contents of artifacts are put back if the database does not say whether an artifact uses them', async () => {
    const record = await keep('unsure');
    const isContentUsed = artifacts.isContentUsed.bind(artifacts);
    let looks = 0;
    artifacts.isContentUsed = async (...given) => {
      looks += 1;
      if (looks === 2) throw new Error('the connection broke');
      return isContentUsed(...given);
    };
    await contents.release(record);
    assert.deepEqual([looks, await store.has(record.sha256)], [2, true]);
    clock.advance(HOUR_MS + 60_000);
    assert.equal(await contents.removeOrphans(), 1);
  });

  it('contents of artifacts get `unavailable` soon if the store does not answer while the database waits, and are stored by the next attempt', {
    timeout: 10_000,
  }, async () => {
    const hanging = new LocalStore(join(folder, 'contents'));
    const has = hanging.has.bind(hanging);
    let looks = 0;
    hanging.has = async (name) => (++looks === 1 ? new Promise<never>(() => undefined) : has(name));
    const { db, transactions } = world;
    const log = pino({ level: 'silent' });
    const bounded = new ArtifactContents(
      { db, transactions, store: hanging, artifacts, locks: contentLocksOf(world), clock, log },
      { lookMs: 20 },
    );
    const other = keeperOf(bounded);
    await assert.rejects(
      other.keep({ signal: forever, ...UNAUDITED }, artifactOf('slow'), { open: () => Readable.from(['slow']) }),
      {
        code: 'unavailable',
      },
    );
    const { sha256 } = await other.keep({ signal: forever, ...UNAUDITED }, artifactOf('slow'), {
      open: () => Readable.from(['slow']),
    });
    assert.equal(await store.has(sha256), true);
  });

  it('contents of artifacts are used by no artifact while a request to remove them may still arrive in the bucket', async () => {
    const bucket = new LateStore(join(folder, 'contents'));
    const { db, transactions } = world;
    const log = pino({ level: 'silent' });
    const late = new ArtifactContents({
      db,
      transactions,
      store: bucket,
      artifacts,
      locks: contentLocksOf(world),
      clock,
      log,
    });
    const first = await keep('twins');
    await late.release(first);
    const file = join(folder, 'twins');
    writeFileSync(file, 'twins');
    const staged = { file, sha256: first.sha256, sizeBytes: 5, async [Symbol.asyncDispose]() {} };
    const record = { ...first, id: 'art_second' as ArtifactId };
    const keepAgain = (signal: AbortSignal) =>
      late.keep(staged, first.orgId, (tx) => artifacts.insert(record, tx), signal);
    // It would wait, which nothing waits for here.
    await assert.rejects(keepAgain(AbortSignal.abort()), { name: 'AbortError' });
    await bucket.arrive();
    clock.advance(HOUR_MS);
    assert.ok(await keepAgain(AbortSignal.timeout(30_000)));
    assert.equal(await store.has(first.sha256), true);
  });

  it('contents of artifacts can be stored again at once after the bucket has refused or answered their removal', async () => {
    const bucket = new LateStore(join(folder, 'contents'));
    const { db, transactions } = world;
    const late = new ArtifactContents({
      db,
      transactions,
      store: bucket,
      artifacts,
      locks: contentLocksOf(world),
      clock,
      log: pino({ level: 'silent' }),
    });
    for (const answer of [new StoreError('slow down'), undefined]) {
      bucket.answer = answer;
      const { sha256, id, orgId } = await keep(`answered with ${answer}`);
      await late.release((await artifacts.find(id)) ?? assert.fail());
      const staged = { file: '', sha256, sizeBytes: 5, async [Symbol.asyncDispose]() {} };
      bucket.put = async () => undefined;
      bucket.has = async () => true;
      assert.equal(await late.keep(staged, orgId, async () => 'kept', AbortSignal.abort()), 'kept');
    }
  });

  it('contents of artifacts are stored once for each organization, so that no time shows what another one has', async () => {
    let puts = 0;
    const put = store.put.bind(store);
    store.put = (...given) => {
      puts += 1;
      return put(...given);
    };
    const first = await keep('shared');
    await keep('shared');
    assert.equal(puts, 1);
    const stranger = 'org_2' as OrgId;
    const kept: OrgId[] = [];
    await using staged = await new Staging(join(folder, 'staging'), ids).take(
      { orgId: stranger, open: () => Readable.from(['shared']) },
      1000,
      new AbortController().signal,
    );
    await contents.keep(staged, stranger, async () => kept.push(stranger), new AbortController().signal);
    assert.deepEqual([puts, kept, await store.has(first.sha256)], [2, [stranger], true]);
  });

  it('contents of artifacts go after the answer to the deletion of their artifact, so that its time does not show who else has them', async () => {
    const record = await keep('deleted');
    const { promise: mayLook, resolve: look } = Promise.withResolvers<void>();
    const isContentUsed = artifacts.isContentUsed.bind(artifacts);
    artifacts.isContentUsed = async (...given) => {
      await mayLook;
      return isContentUsed(...given);
    };
    assert.equal((await contents.releaseAtOnce(UNAUDITED, record))?.id, record.id);
    assert.equal(await contents.releaseAtOnce(UNAUDITED, record), undefined);
    assert.equal(await store.has(record.sha256), true);
    look();
    await contents.settle();
    assert.equal(await store.has(record.sha256), false);
  });

  it('contents of artifacts leave nothing when they break off, are too large, or the store does not take them', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('begun');
        throw new Error('the sandbox is gone');
      })(),
    );
    await assert.rejects(keep('broken', broken), { name: 'SourceError' });
    await assert.rejects(keep('large', Readable.from([Buffer.alloc(1001)])), { code: 'payload_too_large' });
    store.put = async () => {
      throw new StoreError('no');
    };
    await assert.rejects(keep('refused'), { code: 'unavailable' });
    assert.deepEqual(staged(), []);
    assert.deepEqual(await Array.fromAsync(store.list()), []);
    assert.deepEqual(
      await artifacts.list(
        {
          orgId: 'org_1' as OrgId,
          projectIds: undefined,
          sandboxId: undefined,
          workspaceRunId: undefined,
          name: undefined,
        },
        0,
        { limit: 1 },
      ),
      [],
    );
  });
});
