/** A simulated server: it has the services of a real server, and no sockets. */
import type { Operation } from '@cloche/contract';
import type { IdSource } from '@cloche/server/id-source';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Registry } from 'prom-client';
import type { Authenticator } from '../../src/api-keys/authenticator.ts';
import type { KeepArtifact } from '../../src/artifacts/keep-artifact.ts';
import { AppError } from '../../src/base/app-error.ts';
import type { DiskSpace } from '../../src/base/disk-space.ts';
import { ResultMemoryLimit } from '../../src/base/result-memory.ts';
import { Fence } from '../../src/cluster/fence.ts';
import { ServerLease } from '../../src/cluster/server-lease.ts';
import { composeSandboxes, type Sandboxes } from '../../src/compose/compose-sandboxes.ts';
import { composeUsage } from '../../src/compose/compose-usage.ts';
import type { Database } from '../../src/db/database.ts';
import { DatabaseClock } from '../../src/db/database-clock.ts';
import { LiveServers } from '../../src/db/live-servers.ts';
import { Transactions } from '../../src/db/transactions.ts';
import { execute } from '../../src/http/execute.ts';
import { InFlight } from '../../src/http/in-flight.ts';
import type { Route } from '../../src/http/route.ts';
import { HeldClaims } from '../../src/idempotency/held-claims.ts';
import { Idempotency } from '../../src/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../../src/idempotency/idempotency-repository.ts';
import { EventOutbox } from '../../src/outbox/event-outbox.ts';
import { ProjectAccess } from '../../src/projects/access/project-access.ts';
import { SqlProjectRepository } from '../../src/projects/project-repository.ts';
import { Quotas } from '../../src/quotas/quotas.ts';
import { credentialOf, SETTINGS, SILENT } from '../sandboxes.ts';
import { type DatabaseWorld, openFor } from './database-connections.ts';
import type { Link, Peer } from './faults.ts';
import type { NotificationBus } from './notification-bus.ts';
import { type RuntimeWorld, runtimeFor, type SimulatedRuntime } from './simulated-runtime.ts';

export interface ServerWorld extends DatabaseWorld, RuntimeWorld {
  readonly ids: IdSource;
  readonly bus: NotificationBus;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
  /** Code of an error. */
  readonly code: string | undefined;
}

export interface Call {
  readonly operation: Operation;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly key?: string | undefined;
}

export class SimulatedServer implements Peer {
  readonly name: string;
  readonly cutUntil = new Map<Link, number>();
  isAlive = true;
  resumesAt = 0;
  /** Called at the end of the process: the connections of its clients break. */
  readonly onEnd = new Set<() => void>();
  readonly #world: ServerWorld;
  readonly #connections: { db: Database; close: () => void };
  readonly #runtime: SimulatedRuntime;
  #parts: Parts | undefined;

  constructor(name: string, world: ServerWorld) {
    this.name = name;
    this.#world = world;
    this.#connections = openFor(this, world);
    this.#runtime = runtimeFor(this, world);
  }

  /** Whether the server answers requests. */
  get isServing(): boolean {
    return this.isAlive && this.#parts !== undefined;
  }

  /** Starts the services. Rejects as the start of a server does, which then ends. */
  async start(): Promise<void> {
    const { db } = this.#connections;
    const parts = await compose(this.name, db, this.#runtime, this.#world, this);
    await parts.lease.start();
    await parts.sandboxes.start();
    parts.startUsage();
    this.#parts = parts;
  }

  /** Ends the process at once. Its connections close now, or later if its whole machine has ended. */
  end(closesMs = 0): void {
    this.isAlive = false;
    this.#world.bus.leave(this);
    for (const ended of this.onEnd) ended();
    this.#world.time.afterFor(undefined, closesMs, `connections of ${this.name} close`, () => {
      this.#connections.close();
      this.#runtime.closeAll();
    });
  }

  /** Executes a request as the HTTP layer does. Never settles if the server ends before the answer. */
  async call(call: Call): Promise<Answer> {
    if (!this.#parts) return { status: 503, body: '', code: 'unavailable' };
    const { routes, clock, idempotency, inFlight, resultMemoryLimit, isFenced } = this.#parts;
    const route = routes.get(call.operation.id);
    if (!route) throw new Error(`no route ${call.operation.id}`);
    const answered: { status: number; body: string } = { status: 0, body: '' };
    const reply = replyTo(answered);
    const request = {
      id: 'req',
      ip: '::1',
      headers: {},
      log: SILENT,
      state: { receivedAt: clock.now(), credential: credentialOf() },
    };
    const valid = { params: call.params ?? {}, query: call.query ?? {}, body: call.body, idempotencyKey: call.key };
    // Sound: `execute` uses nothing else of them for routes that answer with JSON.
    const execution = { request: request as unknown as FastifyRequest, reply: reply as unknown as FastifyReply, valid };
    const deps = {
      authenticator: {} as Authenticator,
      idempotency,
      inFlight,
      transfers: { stallMs: 60_000 },
      resultMemoryLimit,
      space: { require: async () => undefined } as unknown as DiskSpace,
    };
    try {
      if (isFenced()) throw new AppError('unavailable', 'cut off');
      await execute(route, execution, deps);
      return { ...answered, code: undefined };
    } catch (error) {
      if (error instanceof AppError) return { status: error.status, body: '', code: error.code };
      return { status: 500, body: String((error as Error).stack), code: 'internal' };
    } finally {
      reply.raw.close();
    }
  }
}

interface Parts {
  readonly clock: DatabaseClock;
  readonly idempotency: Idempotency;
  readonly inFlight: InFlight;
  readonly resultMemoryLimit: ResultMemoryLimit;
  readonly lease: ServerLease;
  readonly sandboxes: Sandboxes;
  readonly routes: ReadonlyMap<string, Route>;
  readonly isFenced: () => boolean;
  startUsage(): void;
}

async function compose(
  serverId: string,
  db: Database,
  { driver }: SimulatedRuntime,
  { ids, bus, without, time }: ServerWorld,
  peer: Peer,
): Promise<Parts> {
  // Each process counts from its own beginning.
  const startedAt = time.now();
  const elapsed = () => time.now() - startedAt;
  const clock = new DatabaseClock(db, elapsed);
  await clock.sync();
  const log = SILENT;
  const transactions = new Transactions(db);
  const outbox = new EventOutbox(db, clock, ids);
  const notifications = bus.join(peer);
  const shared = { db, clock, ids, log, transactions, outbox, notifications };
  const servers = new LiveServers(db, serverId, clock);
  const repository = new IdempotencyRepository(db);
  const fence = without.has('fence') ? undefined : new Fence(() => held.abandonAll(), elapsed);
  const isFenced = () => fence?.isClosed ?? false;
  const held = new HeldClaims(isFenced);
  const idempotency = new Idempotency(repository, serverId, clock, ids, {}, held);
  const files = { removeExpired: async () => undefined };
  const known = without.has('failing of unheld claims') ? new AllHeld() : held;
  const lease = new ServerLease({ ...shared, records: repository, held: known, files, serverId, version: '1', fence });
  const usage = composeUsage({ ...shared, driver });
  const sandboxes = composeSandboxes({
    ...shared,
    usage,
    projects: new ProjectAccess(new SqlProjectRepository(db)),
    quotas: new Quotas({ ...shared, defaults: {} }),
    driver,
    settings: SETTINGS,
    metrics: new Registry(),
    // No run of a simulation makes artifacts.
    keepArtifact: {} as KeepArtifact,
    servers,
    isFenced,
  });
  const routes = new Map(sandboxes.routes.map((route) => [route.operation.id, route]));
  const [inFlight, resultMemoryLimit] = [new InFlight(), new ResultMemoryLimit()];
  const startUsage = () => usage.start();
  return { clock, idempotency, inFlight, resultMemoryLimit, lease, sandboxes, routes, isFenced, startUsage };
}

/** Knows every claim, so that no heartbeat fails one. */
class AllHeld extends HeldClaims {
  override has(): boolean {
    return true;
  }
}

/** Returns a reply that stores what it is given. */
function replyTo(answered: { status: number; body: string }) {
  const onClose: (() => void)[] = [];
  const reply = {
    raw: {
      closed: false,
      destroyed: false,
      writableFinished: false,
      once: (_event: string, act: () => void) => onClose.push(act),
      off: (_event: string, act: () => void) => onClose.splice(onClose.indexOf(act), 1),
      close() {
        reply.raw.writableFinished = true;
        for (const act of onClose.splice(0)) act();
      },
    },
    header: () => reply,
    type: () => reply,
    code(status: number) {
      answered.status = status;
      return reply;
    },
    send(body: string) {
      answered.body = body;
      return reply;
    },
  };
  return reply;
}
