import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { ArtifactStore } from '../features/artifacts/store/artifact-store.ts';
import type { Staging } from '../features/artifacts/store/staging.ts';
import { ArchiveJudge } from '../features/workspace-runs/archive/archive-judge.ts';
import { ArchiveMetrics } from '../features/workspace-runs/archive/archive-metrics.ts';
import { ArchiveRepository } from '../features/workspace-runs/archive/archive-repository.ts';
import { archiveRoutes } from '../features/workspace-runs/archive/archive-routes.ts';
import { ReceiveArchive } from '../features/workspace-runs/archive/receive-archive.ts';
import { RemoveArchives } from '../features/workspace-runs/archive/remove-archives.ts';
import { StoreArchive } from '../features/workspace-runs/archive/store-archive.ts';
import { TransferArchive, UPLOAD_PATH } from '../features/workspace-runs/archive/transfer-archive.ts';
import { UnpackArchive } from '../features/workspace-runs/archive/unpack-archive.ts';
import type { WorkspaceRunAccess } from '../features/workspace-runs/record/workspace-run-access.ts';
import type { WorkspaceRunRepository } from '../features/workspace-runs/record/workspace-run-repository.ts';
import type { Clock } from '../platform/base/clock.ts';
import { Loop } from '../platform/base/loop.ts';
import { SignedLinks } from '../platform/base/signed-links.ts';
import type { Database } from '../platform/db/database.ts';
import { serverSecret } from '../platform/db/server-secret.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { SignedUploads } from '../platform/http/signed-uploads.ts';

const SECRET_NAME = 'archive-uploads';
/** Time between removals of expired archives. Clients do not see them any more, so this only frees their space. */
const REMOVE_MS = 60_000;
/**
 * Time between searches for contents without an owner. Listing a whole store is costly, and no request waits for it.
 */
const ORPHANS_MS = 6 * 3_600_000;
const RETRY_MS = 10_000;

/** The parts of the server that archives share with artifacts. */
export interface ArchiveStorage {
  /** Stores archives, apart from the contents of artifacts. */
  readonly archiveStore: ArtifactStore;
  readonly staging: Staging;
  /** Returns the base URL of signed links, without a trailing slash. */
  readonly publicUrl: () => string;
  /** Most bytes of archives of an organization that are stored or are being uploaded. */
  readonly maxArchivesBytes: number;
}

export interface ArchivesDeps extends ArchiveStorage {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly runs: WorkspaceRunRepository;
  readonly runAccess: WorkspaceRunAccess;
  readonly metrics: Registry;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The composed parts of archives of workspace runs. */
export interface Archives {
  readonly routes: Route[];
  readonly signedUploads: SignedUploads;
  readonly unpackArchive: UnpackArchive;
  start(): void;
  stop(): Promise<void>;
}

export async function composeArchives({ archiveStore: store, metrics, ...deps }: ArchivesDeps): Promise<Archives> {
  const { db, transactions, runs, runAccess, staging, publicUrl, maxArchivesBytes, clock, log } = deps;
  const archives = new ArchiveRepository(db, transactions);
  const removeArchives = new RemoveArchives({ archives, store, clock, log });
  const storeArchive = new StoreArchive({
    runs,
    archives,
    store,
    judge: new ArchiveJudge(),
    removeArchives,
    metrics: new ArchiveMetrics(metrics),
    maxArchivesBytes,
    transactions,
    clock,
  });
  const key = await serverSecret(db, SECRET_NAME);
  const links = new SignedLinks({ key, purpose: SECRET_NAME, path: UPLOAD_PATH }, clock);
  const shared = { archives, storeArchive, removeArchives, store, staging, clock };
  const transferArchive = new TransferArchive({ ...shared, links, publicUrl });
  const receiveArchive = new ReceiveArchive(runAccess, archives, staging);
  const loops: Loop[] = [];
  return {
    routes: archiveRoutes({ runAccess, receiveArchive, storeArchive, transferArchive }),
    signedUploads: { path: UPLOAD_PATH, find: (link) => transferArchive.find(link) },
    unpackArchive: new UnpackArchive(archives, store),
    start() {
      const remove = async () => {
        await removeArchives.removeEnded();
        return REMOVE_MS;
      };
      const collect = async () => {
        const removed = await removeArchives.removeOrphans();
        if (removed > 0) log.info({ removed }, 'archives without an owner removed');
        return ORPHANS_MS;
      };
      loops.push(
        new Loop('remove archives', remove, RETRY_MS, log),
        new Loop('archive orphans', collect, RETRY_MS, log),
      );
    },
    async stop() {
      await Promise.all(loops.splice(0).map((loop) => loop.stop()));
      await store.close();
    },
  };
}
