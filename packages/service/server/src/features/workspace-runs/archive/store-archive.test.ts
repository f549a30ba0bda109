import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { digestOf, EMPTY_TAR, fileAt, tarOf } from '../../../../testing/archives.ts';
import { callOf } from '../../../../testing/call.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { credentialOf } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { standStill } from '../../../../testing/stand-still.ts';
import { newRun, RUN_ID, runRepositoryOf } from '../../../../testing/workspace-runs.ts';
import { unavailable } from '../../../platform/base/app-error.ts';
import { SignedLinks } from '../../../platform/base/signed-links.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import { type Transaction, Transactions } from '../../../platform/db/transactions.ts';
import { LocalStore } from '../../artifacts/store/local-store.ts';
import { Staging } from '../../artifacts/store/staging.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import { ArchiveJudge } from './archive-judge.ts';
import { ArchiveMetrics } from './archive-metrics.ts';
import { ArchiveRepository } from './archive-repository.ts';
import { RemoveArchives } from './remove-archives.ts';
import { StoreArchive } from './store-archive.ts';
import { TransferArchive } from './transfer-archive.ts';

const FILES = tarOf(fileAt('a'), fileAt('b'));
const CALL = callOf({ credential: credentialOf() });

let folder: string;
let world: SandboxesWorld;
let store: LocalStore;
let runs: WorkspaceRunRepository;
let archives: ArchiveRepository;
let removeArchives: RemoveArchives;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-archives-'));
  world = await openSandboxes();
  store = new LocalStore(join(folder, 'archives'));
  runs = runRepositoryOf(world);
  archives = new ArchiveRepository(world.db, world.transactions);
  removeArchives = new RemoveArchives({ archives, store, clock: world.clock, log: SILENT });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** Transactions whose commit fails, or succeeds without an answer. */
class UnansweredTransactions extends Transactions {
  readonly #commits: boolean;

  constructor({ db }: SandboxesWorld, { commits }: { commits: boolean }) {
    super(db);
    this.#commits = commits;
  }

  override async run<T>(act: (tx: Transaction) => Promise<T>): Promise<T> {
    if (this.#commits) await super.run(act);
    throw unavailable('The connection broke.');
  }
}

/** A server that stores archives. */
function serverOf(transactions = world.transactions) {
  const judge = new ArchiveJudge();
  const metrics = new ArchiveMetrics(new Registry());
  const parts = { runs, archives, store, removeArchives, clock: world.clock };
  const storeArchive = new StoreArchive({ ...parts, judge, metrics, transactions, maxArchivesBytes: 2 ** 30 });
  const links = new SignedLinks({ key: Buffer.alloc(32), purpose: 'test', path: '/uploads' }, world.clock);
  const staging = new Staging(join(folder, 'staging'), world.ids);
  const transferArchive = new TransferArchive({ ...parts, storeArchive, staging, links, publicUrl: () => '' });
  return { judge, storeArchive, transferArchive };
}

let files = 0;
function fileOf(bytes: Buffer) {
  files += 1;
  const file = join(folder, `staged-${files}`);
  writeFileSync(file, bytes);
  return { file, format: 'tar' as const, ...digestOf(bytes) };
}

async function upload({ storeArchive }: ReturnType<typeof serverOf>, bytes: Buffer): Promise<WorkspaceRunRecord> {
  const replaced = (await archives.findCurrent(RUN_ID))?.id;
  const run = (await runs.find(RUN_ID)) ?? assert.fail();
  return storeArchive.store(CALL, run, fileOf(bytes), replaced);
}

const stored = async () => (await Array.fromAsync(store.list())).map(({ name }) => name);
/** Asserts that the run has these bytes, and that nothing else is stored. */
async function assertHas(bytes: Buffer): Promise<void> {
  const current = (await archives.findCurrent(RUN_ID)) ?? assert.fail();
  const { sha256 } = digestOf(bytes);
  assert.deepEqual([(await runs.find(RUN_ID))?.archive?.sha256, current.sha256], [sha256, sha256]);
  assert.deepEqual(await stored(), [current.id]);
}

describe('an upload whose transaction is not answered', () => {
  for (const autoStart of [false, true]) {
    it(`an upload whose transaction is not answered keeps its content if the commit has succeeded, of a run that ${autoStart ? 'starts by itself' : 'waits'}`, async () => {
      await runs.insert(UNAUDITED, newRun({ autoStart }), 10);
      const unanswered = serverOf(new UnansweredTransactions(world, { commits: true }));
      await assert.rejects(upload(unanswered, FILES), { code: 'unavailable' });
      await assertHas(FILES);
    });
  }

  it('an upload whose transaction is not answered leaves nothing if the commit has failed, even if the answer to its discard is lost too', async () => {
    await runs.insert(UNAUDITED, newRun(), 10);
    const failing = serverOf(new UnansweredTransactions(world, { commits: false }));
    await assert.rejects(upload(failing, FILES), { code: 'unavailable' });
    assert.deepEqual(await stored(), []);

    const discard = archives.discard.bind(archives);
    archives.discard = async (id) => {
      await discard(id);
      throw unavailable('The connection broke.');
    };
    await assert.rejects(upload(failing, FILES), { code: 'unavailable' });
    assert.equal((await stored()).length, 1);
    await removeArchives.removeEnded();
    assert.deepEqual(await stored(), []);
    assert.equal((await runs.find(RUN_ID))?.status, 'awaiting_archive');
  });
});

describe('an upload of a server that resumes late', () => {
  for (const [title, earlier] of [
    ['the first archive', []],
    ['one that replaced another', [tarOf(fileAt('earlier'))]],
    ['the archive that it had, which was uploaded again after a third one', [EMPTY_TAR, FILES]],
  ] as const) {
    it(`an upload of a server that resumes late does not replace a later one: ${title}`, async () => {
      await runs.insert(UNAUDITED, newRun(), 10);
      const [late, other] = [serverOf(), serverOf()];
      for (const bytes of earlier) await upload(other, bytes);
      const { reached, goOn } = standStill('after', late.judge, 'judge');
      const uploading = upload(late, tarOf(fileAt('late')));
      const refused = assert.rejects(uploading, { code: 'conflict', message: /^Another archive was uploaded/ });
      await reached;
      if (title.startsWith('the archive that it had')) await upload(other, tarOf(fileAt('third')));
      await upload(other, FILES);
      goOn();
      await refused;
      await assertHas(FILES);
    });
  }

  it('an upload of a server that resumes late is accepted if the later one has the same bytes, as when a client repeats a request', async () => {
    await runs.insert(UNAUDITED, newRun(), 10);
    const [late, other] = [serverOf(), serverOf()];
    const { reached, goOn } = standStill('after', late.judge, 'judge');
    const uploading = upload(late, FILES);
    await reached;
    await upload(other, FILES);
    goOn();
    assert.equal((await uploading).archive?.sha256, digestOf(FILES).sha256);
    await assertHas(FILES);
  });

  it('an upload of a server that resumes late does not replace a later one when it was sent to a signed URL, and can be finalized again', async () => {
    await runs.insert(UNAUDITED, newRun(), 10);
    const [late, other] = [serverOf(), serverOf()];
    const run = (await runs.find(RUN_ID)) ?? assert.fail();
    const sent = fileOf(EMPTY_TAR);
    const transfer = await late.storeArchive.reserve(UNAUDITED, run, sent, { isTransfer: true, forMs: 1000 });
    await store.put(sent.file, { ...digestOf(EMPTY_TAR), name: transfer.id });
    const { reached, goOn } = standStill('after', late.judge, 'judge');
    const refused = assert.rejects(late.transferArchive.finalize(CALL, run), { code: 'conflict' });
    await reached;
    await upload(other, FILES);
    goOn();
    await refused;
    assert.equal((await runs.find(RUN_ID))?.archive?.sha256, digestOf(FILES).sha256);
    await late.transferArchive.finalize(CALL, run);
    await assertHas(EMPTY_TAR);
  });
});
