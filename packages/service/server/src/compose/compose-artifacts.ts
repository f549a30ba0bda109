import type { Logger } from 'pino';
import { ArtifactContents } from '../features/artifacts/artifact-contents.ts';
import { type ArtifactRepository, SqlArtifactRepository } from '../features/artifacts/artifact-repository.ts';
import { artifactRoutes } from '../features/artifacts/artifact-routes.ts';
import { ArtifactService } from '../features/artifacts/artifact-service.ts';
import type { ArtifactSettings } from '../features/artifacts/artifact-settings.ts';
import { downloadArtifact } from '../features/artifacts/download-artifact.ts';
import { DOWNLOAD_PATH, openDownloadLinks } from '../features/artifacts/download-links.ts';
import { ExportArtifact } from '../features/artifacts/export-artifact.ts';
import { KeepArtifact } from '../features/artifacts/keep-artifact.ts';
import type { ArtifactStore } from '../features/artifacts/store/artifact-store.ts';
import { Staging } from '../features/artifacts/store/staging.ts';
import type { AccessFiles } from '../features/files/access-files.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { SandboxAccess } from '../features/sandbox-records/sandbox-access.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import { AppError } from '../platform/base/app-error.ts';
import type { DiskSpace } from '../platform/base/disk-space.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { SignedDownloads } from '../platform/http/signed-downloads.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import type { Coordination } from './coordination.ts';

/** Time between removals of expired artifacts. Clients no longer see them, so this only frees their space. */
const EXPIRE_MS = 60_000;
/** Time between searches for orphaned contents. Listing a whole store is costly, and no request waits for it. */
const ORPHANS_MS = 6 * 3_600_000;
const RETRY_MS = 10_000;
/** Time between searches for contents that servers were receiving when they died. */
const STAGED_MS = 10_000;

export interface ArtifactsDeps extends Pick<Coordination, 'servers' | 'clock' | 'watchOthers' | 'contentLocks'> {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly store: ArtifactStore;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly settings: ArtifactSettings;
  /** Disk space of the volume on which contents are staged. */
  readonly space: DiskSpace;
  readonly ids: IdSource;
  readonly log: Logger;
}

/** Access of artifacts to sandboxes. */
export interface SandboxAccesses {
  readonly access: SandboxAccess;
  readonly files: AccessFiles;
}

/** The composed parts of artifacts. */
export interface Artifacts {
  readonly repository: ArtifactRepository;
  readonly contents: ArtifactContents;
  readonly keepArtifact: KeepArtifact;
  readonly signedDownloads: SignedDownloads;
  readonly staging: Staging;
  /** Returns the base URL of signed links, without a trailing slash. */
  readonly publicUrl: () => string;
  routes(exportArtifact: ExportArtifact): Route[];
  exportArtifact(sandboxes: SandboxAccesses): ExportArtifact;
  /** Sets the URL of the service. Call it before the first link is made. */
  servedAt(url: string): void;
  /** Removes the leftovers of a server that died, and starts the jobs. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export async function composeArtifacts(deps: ArtifactsDeps): Promise<Artifacts> {
  const { db, store, projects, settings, servers, clock, ids, log, space } = deps;
  const artifacts = new SqlArtifactRepository(db, deps.transactions, deps.outbox);
  const contents = new ArtifactContents({ ...deps, artifacts, locks: deps.contentLocks(deps.transactions) });
  const staging = new Staging(settings.stagingDir, ids, {
    space,
    serverId: servers.own,
    largestBytes: settings.maxBytes,
  });
  const keepArtifact = new KeepArtifact({ contents, artifacts, quotas: deps.quotas, staging, settings, clock, ids });
  const service = new ArtifactService(artifacts, contents, projects, clock);
  const links = await openDownloadLinks(db, clock);
  let servedAt = '';
  const publicUrl = () => (settings.publicUrl ?? servedAt).replace(/\/$/, '');
  const loops: Pick<Loop, 'stop'>[] = [];
  return {
    repository: artifacts,
    contents,
    keepArtifact,
    staging,
    publicUrl,
    signedDownloads: {
      path: DOWNLOAD_PATH,
      async find({ link, ...options }) {
        if (!links.isValid(link)) {
          throw new AppError('forbidden', 'The download URL has expired or was changed; create another one.');
        }
        const record = await service.getSigned(link.id);
        return {
          orgId: record.orgId,
          open: (signal) => downloadArtifact({ signal }, record, contents, options),
        };
      },
    },
    exportArtifact: ({ access, files }) => new ExportArtifact(access, files, artifacts, keepArtifact),
    routes: (exportArtifact) => artifactRoutes({ service, exportArtifact, contents, links, publicUrl, clock }),
    servedAt(url) {
      servedAt = url;
    },
    async start() {
      await staging.clear(() => servers.others());
      loops.push(deps.watchOthers('staged', () => staging.clearOfDead(() => servers.others()), STAGED_MS));
      const expire = async () => {
        await service.expire();
        return EXPIRE_MS;
      };
      const collect = async () => {
        const removed = await contents.removeOrphans();
        if (removed > 0) log.info({ removed }, 'contents without an artifact removed');
        return ORPHANS_MS;
      };
      loops.push(new Loop('expire artifacts', expire, RETRY_MS, log), new Loop('orphans', collect, RETRY_MS, log));
    },
    async stop() {
      await Promise.all(loops.splice(0).map((loop) => loop.stop()));
      await contents.settle();
      await store.close();
    },
  };
}
