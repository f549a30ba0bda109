import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS, type WorkspaceRunId } from '@cloche/contract';
import { type ArchiveSource, FileError } from '@cloche/runtime/agent-files';
import { FakeClock } from '@cloche/testkit';
import { digestOf } from '../../../../testing/archives.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { ORG } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { newRun, RUN_ID, runRepositoryOf } from '../../../../testing/workspace-runs.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import { LocalStore } from '../../artifacts/store/local-store.ts';
import { type ArchiveRecord, ArchiveRepository } from './archive-repository.ts';
import { RemoveArchives } from './remove-archives.ts';
import { UnpackArchive } from './unpack-archive.ts';

const HOUR_MS = 3_600_000;
const GRACE_MS = HOUR_MS;

let folder: string;
let world: SandboxesWorld;
let clock: FakeClock;
let store: LocalStore;
let archives: ArchiveRepository;
let removing: RemoveArchives;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-archives-'));
  world = await openSandboxes();
  clock = new FakeClock(1_000_000);
  store = new LocalStore(join(folder, 'archives'));
  archives = new ArchiveRepository(world.db, world.transactions);
  removing = new RemoveArchives({ archives, store, clock, log: SILENT });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** Reserves an archive, as an upload does before anything is stored. */
async function reserve(changes: Partial<ArchiveRecord> = {}, limit = Number.MAX_SAFE_INTEGER) {
  const id = randomBytes(32).toString('hex');
  const content = Buffer.from(id);
  const record: ArchiveRecord = {
    id,
    orgId: ORG,
    runId: RUN_ID,
    isTransfer: false,
    format: 'tar',
    ...digestOf(content),
    createdAt: clock.now(),
    expiresAt: clock.now() + HOUR_MS,
    ...changes,
  };
  return { record, content, ...(await archives.reserve(record, limit)) };
}

async function put({ record, content }: { record: ArchiveRecord; content: Buffer }): Promise<void> {
  const file = join(folder, 'staged');
  writeFileSync(file, content);
  await store.put(file, { sha256: record.sha256, sizeBytes: record.sizeBytes, name: record.id });
}

async function makeCurrent(reserved: Awaited<ReturnType<typeof reserve>>): Promise<ArchiveRecord> {
  await put(reserved);
  const replaced = (await archives.findCurrent(reserved.record.runId))?.id;
  assert.equal(await world.transactions.run((tx) => archives.makeCurrent(reserved.record, replaced, tx)), 'current');
  return reserved.record;
}

const rows = async () => (await world.db.selectFrom('workspace_archives').select('id').execute()).length;
const contents = () => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());

describe('the archive of a run', () => {
  it('the archive of a run is kept while the run is not finished, and for a day afterwards', async () => {
    const runs = runRepositoryOf(world);
    await runs.insert(UNAUDITED, newRun(), 10);
    const { id } = await makeCurrent(await reserve());
    clock.advance(100 * LIMITS.workspaceArchiveKeptMs);
    await removing.removeEnded();
    assert.equal(await store.has(id), true);
    await runs.transition(newRun(), 'cancel', { finishedAt: clock.now() });
    clock.advance(LIMITS.workspaceArchiveKeptMs - 1);
    await removing.removeEnded();
    assert.equal(await store.has(id), true);
    clock.advance(1);
    await removing.removeEnded();
    assert.deepEqual([await store.has(id), await rows()], [false, 0]);
  });

  it('the archive of a run is removed when its run has no record any more', async () => {
    const { id } = await makeCurrent(await reserve({ runId: 'wrun_gone' as WorkspaceRunId }));
    await removing.removeEnded();
    assert.deepEqual([await store.has(id), await rows()], [false, 0]);
  });

  it('the archive of a run is one: the one before is removed', async () => {
    await runRepositoryOf(world).insert(UNAUDITED, newRun(), 10);
    const { id: first } = await makeCurrent(await reserve());
    const { id: second } = await makeCurrent(await reserve());
    await removing.removeDiscarded();
    assert.deepEqual([await store.has(first), await store.has(second), await rows()], [false, true, 1]);
    assert.equal((await archives.findCurrent(RUN_ID))?.id, second);
  });
});

describe('an upload whose server was killed', () => {
  for (const [title, isStored] of [
    ['before its content was stored', false],
    ['after its content was stored', true],
  ] as const) {
    it(`${title} is given up after its time, and leaves nothing`, async () => {
      const reserved = await reserve();
      if (isStored) await put(reserved);
      clock.advance(HOUR_MS + GRACE_MS - 1);
      await removing.removeEnded();
      assert.deepEqual([await store.has(reserved.record.id), await rows()], [isStored, 1]);
      clock.advance(1);
      await removing.removeEnded();
      assert.deepEqual([await store.has(reserved.record.id), await rows()], [false, 0]);
      const late = world.transactions.run((tx) => archives.makeCurrent(reserved.record, undefined, tx));
      assert.equal(await late, 'given_up');
      assert.deepEqual(contents(), []);
    });
  }

  it('between the removal of a content and of its row leaves nothing either', async () => {
    const { id } = await makeCurrent(await reserve());
    await makeCurrent(await reserve());
    await store.remove(id);
    await removing.removeDiscarded();
    assert.equal(await rows(), 1);
  });

  it('an upload whose server was killed that cannot be removed delays no other one', async () => {
    const ids: string[] = [];
    while (ids.length < 4) {
      const reserved = await reserve();
      await put(reserved);
      await archives.discard(reserved.record.id);
      ids.push(reserved.record.id);
    }
    const [stuck = '', ...others] = ids.sort();
    const remove = store.remove.bind(store);
    store.remove = async (id) => (id === stuck ? Promise.reject(new Error('locked')) : remove(id));
    await assert.rejects(removing.removeEnded(), /locked/);
    await assert.rejects(removing.removeEnded(), /locked/);
    assert.deepEqual(await Promise.all(others.map((id) => store.has(id))), [false, false, false]);
    store.remove = remove;
    await removing.removeEnded();
    assert.equal(await rows(), 0);
  });

  it('an upload whose server was killed and has no owner delays no other one either, if it cannot be removed', async () => {
    const ids: string[] = [];
    while (ids.length < 3) {
      const reserved = await reserve();
      await put(reserved);
      await world.db.deleteFrom('workspace_archives').where('id', '=', reserved.record.id).execute();
      ids.push(reserved.record.id);
    }
    const remove = store.remove.bind(store);
    const [{ name: stuck } = assert.fail()] = await Array.fromAsync(store.list());
    store.remove = async (id) => (id === stuck ? Promise.reject(new Error('locked')) : remove(id));
    await assert.rejects(removing.removeOrphans(), /locked/);
    assert.deepEqual(
      await Promise.all(ids.map((id) => store.has(id))),
      ids.map((id) => id === stuck),
    );
  });

  it('an upload whose server was killed leaves no content without an owner', async () => {
    const kept = await makeCurrent(await reserve());
    const reserved = await reserve();
    await world.db.deleteFrom('workspace_archives').where('id', '=', reserved.record.id).execute();
    await put(reserved);
    assert.equal(await removing.removeOrphans(), 1);
    assert.deepEqual([await store.has(reserved.record.id), await store.has(kept.id)], [false, true]);
  });
});

it('archives of an organization have a limit for their bytes, which counts uploads', async () => {
  const { record } = await reserve();
  const { sizeBytes } = record;
  const full = { status: 'full', used: sizeBytes };
  assert.deepEqual(await archives.reserve({ ...record, id: 'b' }, 2 * sizeBytes - 1), full);
  assert.deepEqual(await archives.reserve({ ...record, id: 'b' }, 2 * sizeBytes), { status: 'reserved' });
  const foreign = { ...record, id: 'c', orgId: 'org_2' as typeof ORG };
  assert.deepEqual(await archives.reserve(foreign, sizeBytes), { status: 'reserved' });
  await archives.discard('b');
  assert.deepEqual(await archives.reserve({ ...record, id: 'd' }, 2 * sizeBytes), { status: 'reserved' });
});

describe('unpacking', () => {
  const { signal } = new AbortController();
  const ATTEMPT = { runId: RUN_ID, attempt: 2 };
  /** The files of a sandbox whose agent reads the archive whole. */
  const filesOf = (unarchive: (source: ArchiveSource) => Promise<unknown>) =>
    ({ unarchive: (_path: string, source: ArchiveSource) => unarchive(source) }) as never;

  it('unpacking sends the archive of the run, with the number of the attempt', async () => {
    const { id } = await makeCurrent(await reserve());
    const sent = filesOf(async (source) => [await text(source.open()), source.attempt]);
    assert.deepEqual(await new UnpackArchive(archives, store).unpack(ATTEMPT, sent, signal), [id, ATTEMPT]);
  });

  it('unpacking breaks off before the end of a damaged archive', async () => {
    const { id } = await makeCurrent(await reserve());
    writeFileSync(store.fileOf(id), 'damaged');
    let received = '';
    const sent = filesOf(async (source) => {
      for await (const chunk of source.open()) received += chunk;
    });
    await assert.rejects(new UnpackArchive(archives, store).unpack(ATTEMPT, sent, signal), /is damaged/);
    assert.equal(received, '');
  });

  it('unpacking says why it fails: no archive, or the answer of the agent', async () => {
    const unpackArchive = new UnpackArchive(archives, store);
    const full = filesOf(async () => {
      throw new FileError('disk_full', 'The archive does not fit.');
    });
    await assert.rejects(unpackArchive.unpack(ATTEMPT, full, signal), { code: 'not_found' });
    const { id } = await makeCurrent(await reserve());
    await assert.rejects(unpackArchive.unpack(ATTEMPT, full, signal), { code: 'disk_full' });
    await store.remove(id);
    await assert.rejects(unpackArchive.unpack(ATTEMPT, full, signal), { code: 'not_found' });
  });
});
