/** The parts of a simulated server, composed as a real server composes them. */

import type { RuntimeDriver } from '@cloche/runtime';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { composeSandboxes, type Sandboxes } from '../../src/compose/compose-sandboxes.ts';
import { composeUsage } from '../../src/compose/compose-usage.ts';
import type { Coordination } from '../../src/compose/coordination.ts';
import { manyServers } from '../../src/compose/many-servers.ts';
import type { KeepArtifact } from '../../src/features/artifacts/keep-artifact.ts';
import { Quotas } from '../../src/features/quotas/quotas.ts';
import { ProjectAccess } from '../../src/platform/access/project-access.ts';
import { MarkSigner } from '../../src/platform/audit-log/audit-chain.ts';
import { AuditLog } from '../../src/platform/audit-log/audit-log.ts';
import { Fence, LEASE_MS, type LeaseFence, OPEN_FENCE } from '../../src/platform/base/fence.ts';
import type { IdSource } from '../../src/platform/base/id-source.ts';
import { ResultMemoryLimit } from '../../src/platform/base/result-memory.ts';
import { ServerLease } from '../../src/platform/cluster/server-lease.ts';
import type { Database } from '../../src/platform/db/database.ts';
import { openDatabaseClock, type SharedClock } from '../../src/platform/db/database-clock.ts';
import { LiveServers } from '../../src/platform/db/live-servers.ts';
import { Transactions } from '../../src/platform/db/transactions.ts';
import { InFlight } from '../../src/platform/http/in-flight.ts';
import type { Route } from '../../src/platform/http/route.ts';
import { HeldClaims } from '../../src/platform/idempotency/held-claims.ts';
import { Idempotency } from '../../src/platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../../src/platform/idempotency/idempotency-repository.ts';
import type { Authenticator } from '../../src/platform/keys/authenticator.ts';
import { EventOutbox } from '../../src/platform/outbox/event-outbox.ts';
import { SqlProjectRepository } from '../../src/platform/tenancy/project-repository.ts';
import { SETTINGS } from '../sandbox-settings.ts';
import { SILENT } from '../silent.ts';
import type { DatabaseWorld } from './database-connections.ts';
import type { Peer } from './faults.ts';
import type { NotificationBus } from './notification-bus.ts';
import type { RuntimeWorld, SimulatedRuntime } from './simulated-runtime.ts';
import type { Workload } from './workload.ts';

export interface ServerWorld extends DatabaseWorld, RuntimeWorld {
  readonly ids: IdSource;
  readonly bus: NotificationBus;
  readonly workload: Workload;
}

/** What a workload composes its features of. */
export interface ServerParts extends Coordination {
  readonly db: Database;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly serverId: string;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly driver: RuntimeDriver;
  readonly sandboxes: Sandboxes['core'];
  readonly inFlight: InFlight;
  readonly settings: typeof SETTINGS;
}

/** What a running server answers requests with. */
export interface ComposedServer {
  readonly clock: SharedClock;
  readonly idempotency: Idempotency;
  readonly inFlight: InFlight;
  readonly resultMemoryLimit: ResultMemoryLimit;
  readonly routes: ReadonlyMap<string, Route>;
  /** Undefined if every request has all scopes. */
  readonly authenticator: Authenticator | undefined;
  readonly isFenced: () => boolean;
  start(): Promise<void>;
}

export async function composeServer(
  peer: Peer,
  db: Database,
  { driver }: SimulatedRuntime,
  { ids, bus, without, time, workload }: ServerWorld,
): Promise<ComposedServer> {
  const serverId = peer.name;
  // Each process counts from its own beginning.
  const startedAt = time.now();
  const elapsed = () => time.now() - startedAt;
  const clock = await openDatabaseClock(db, elapsed);
  const log = SILENT;
  const transactions = new Transactions(db);
  const outbox = new EventOutbox(db, clock, ids);
  const notifications = bus.join(peer);
  const servers = new LiveServers(db, serverId, clock);
  const repository = new IdempotencyRepository(db);
  const fence: LeaseFence = without.has('fence') ? OPEN_FENCE : new Fence(() => held.abandonAll(), elapsed);
  const held = new HeldClaims(() => fence.look());
  const parts = { db, ids, log, clock, servers, notifications, held, fence, leaseMs: LEASE_MS };
  const coordination = manyServers(parts);
  const shared = { ...coordination, db, ids, log, transactions, outbox };
  const idempotency = new Idempotency(repository, serverId, clock, ids, {}, held);
  const files = { removeExpired: async () => undefined };
  const known = without.has('failing of unheld claims') ? new AllHeld() : held;
  const lease = new ServerLease({ ...shared, records: repository, held: known, files, serverId, version: '1', fence });
  const usage = composeUsage({ ...shared, driver });
  const projects = new ProjectAccess(new SqlProjectRepository(db));
  const quotas = new Quotas({ ...shared, defaults: {} });
  const sandboxes = composeSandboxes({
    ...shared,
    usage,
    projects,
    quotas,
    auditLog: new AuditLog({ ...shared, signer: new MarkSigner(Buffer.alloc(32, 1)) }),
    driver,
    settings: SETTINGS,
    metrics: new Registry(),
    // No run of a simulation makes artifacts.
    keepArtifact: {} as KeepArtifact,
  });
  const [inFlight, resultMemoryLimit] = [new InFlight(), new ResultMemoryLimit()];
  const composed = { ...shared, serverId, projects, quotas, driver, sandboxes: sandboxes.core, inFlight };
  const feature = await workload.compose?.({ ...composed, settings: SETTINGS }, peer);
  const routes = [...sandboxes.routes, ...(feature?.routes ?? [])];
  return {
    clock,
    idempotency,
    inFlight,
    resultMemoryLimit,
    routes: new Map(routes.map((route) => [route.operation.id, route])),
    authenticator: feature?.authenticator,
    isFenced: coordination.isFenced,
    async start() {
      await lease.start();
      await sandboxes.start();
      usage.start();
      await feature?.start?.();
    },
  };
}

/** Knows every claim, so that no heartbeat fails one. */
class AllHeld extends HeldClaims {
  override has(): boolean {
    return true;
  }
}
