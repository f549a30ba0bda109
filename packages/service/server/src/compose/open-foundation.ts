import { readFileSync } from 'node:fs';
import { dataPaths, runPaths } from '@cloche/layout';
import type { RuntimeDriver } from '@cloche/runtime';
import { HostdDriver } from '@cloche/runtime/hostd-driver';
import type { Logger } from 'pino';
import { randomIds } from '../platform/base/id-source.ts';
import { migrate } from '../platform/db/migrate.ts';
import { openDatabase } from '../platform/db/open-database.ts';
import { Transactions } from '../platform/db/transactions.ts';
import type { SchemaReport } from '../platform/db/upgrade-schema.ts';
import { EventOutbox } from '../platform/outbox/event-outbox.ts';
import { logEvents } from '../platform/outbox/log-events.ts';
import { openTracing } from '../platform/tracing/open-tracing.ts';
import type { Config } from './config.ts';
import { openCoordination } from './open-coordination.ts';

export type Foundation = Awaited<ReturnType<typeof openFoundation>>;

/**
 * Opens what every feature uses: the database with the schema of this version, the coordination of its servers, events, the
 * runtime and the export of traces. `opened` closes it.
 *
 * @param ownDriver default: the driver of the configuration
 */
export async function openFoundation(
  config: Config,
  log: Logger,
  ownDriver: RuntimeDriver | undefined,
  opened: AsyncDisposableStack,
) {
  const ids = randomIds;
  const version = ownVersion();
  const tracing = await openTracing(config.tracing, version, log);
  opened.defer(() => tracing?.close());
  const driver = ownDriver ?? new HostdDriver(runPaths(config.runDir).hostdSocket, tracing);
  const db = await openDatabase(config.databaseUrl);
  opened.defer(() => db.destroy());
  warnOfWaiting(await migrate(db), log);
  const { serverDir } = dataPaths(config.dataDir);
  const coordination = await openCoordination({ db, ids, log, serverDir, leaseMs: config.leaseMs });
  opened.defer(() => coordination.close());
  const outbox = new EventOutbox(db, coordination.clock, ids);
  outbox.onCommitted(logEvents(log));
  const shared = { ...coordination, ids, log, db, transactions: new Transactions(db), outbox };
  return { shared, coordination, driver, tracing, version };
}

function warnOfWaiting({ waiting }: SchemaReport, log: Logger): void {
  if (waiting.length === 0) return;
  log.warn({ waiting }, 'migrations wait for the end of older servers; run `cloche migrate` afterwards');
}

/** Returns the version of the release, which the manifest at the root has. */
function ownVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../../../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}
