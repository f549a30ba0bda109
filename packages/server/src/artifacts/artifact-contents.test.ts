import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { OrgId, ProjectId, SandboxId } from '@cloche/contract';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { openSandboxes, type SandboxesWorld } from '../../testing/sandboxes.ts';
import { ProjectAccess } from '../projects/access/project-access.ts';
import { SqlProjectRepository } from '../projects/project-repository.ts';
import { ArtifactContents } from './artifact-contents.ts';
import type { SqlArtifactRepository } from './artifact-repository.ts';
import { ArtifactService } from './artifact-service.ts';
import { openContentLocks } from './content-locks.ts';
import { KeepArtifact } from './keep-artifact.ts';
import { StoreError } from './store/artifact-store.ts';
import { LocalStore } from './store/local-store.ts';
import { Staging } from './store/staging.ts';

const HOUR_MS = 3_600_000;

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
      store,
      artifacts,
      locks: openContentLocks(world.db, world.transactions),
      clock,
      log: pino({ level: 'silent' }),
    });
    const stagingDir = join(folder, 'staging');
    const settings = {
      url: '',
      stagingDir,
      maxBytes: 1000,
      retentionMs: HOUR_MS,
      publicUrl: undefined,
    };
    const ids = new SequentialIds();
    keeper = new KeepArtifact({
      contents,
      artifacts,
      quotas: world.quotas,
      staging: new Staging(stagingDir, ids),
      settings,
      clock,
      ids,
    });
  });
  afterEach(async () => {
    await world[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const keep = (text: string, source: Readable = Readable.from([Buffer.from(text)])) =>
    keeper.keep(
      {
        orgId: 'org_1' as OrgId,
        projectId: 'prj_default' as ProjectId,
        sandboxId,
        name: text,
        path: undefined,
        contentType: 'text/plain',
        metadata: {},
        idempotencyRecordId: undefined,
      },
      source,
    );
  const staged = () => readdirSync(join(folder, 'staging'));

  it('go when the time of their artifacts is up, and not a moment before', async () => {
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

  it('that a crash has left without an artifact are deleted after an hour; those of artifacts stay', async () => {
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

  it('leave nothing when they break off, are too large, or the store does not take them', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('begun');
        throw new Error('the sandbox is gone');
      })(),
    );
    await assert.rejects(keep('broken', broken), /the sandbox is gone/);
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
      ),
      [],
    );
  });
});
