/** Everything about sandboxes on a database in memory and a fake runtime, called as the HTTP layer calls it. */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CodeRun,
  type CodeRunEvent,
  type Operation,
  operations,
  type ResponseOf,
  type Sandbox,
  type SandboxId,
  type SandboxStatus,
} from '@cloche/contract';
import { FakeClock, FakeRuntimeDriver, SequentialIds } from '@cloche/testkit';
import { Registry } from 'prom-client';
import { composeSandboxes } from '../src/compose/compose-sandboxes.ts';
import { composeTemplates, type Templates } from '../src/compose/compose-templates.ts';
import { composeUsage, type Usage } from '../src/compose/compose-usage.ts';
import type { Coordination } from '../src/compose/coordination.ts';
import { SqlArtifactRepository } from '../src/features/artifacts/artifact-repository.ts';
import type { Limits } from '../src/features/quotas/limits.ts';
import { Quotas } from '../src/features/quotas/quotas.ts';
import type { SandboxSettings } from '../src/features/sandbox-records/sandbox-settings.ts';
import { ProjectAccess } from '../src/platform/access/project-access.ts';
import { MarkSigner } from '../src/platform/audit-log/audit-chain.ts';
import { AuditLog } from '../src/platform/audit-log/audit-log.ts';
import { OPEN_FENCE } from '../src/platform/base/fence.ts';
import type { Database } from '../src/platform/db/database.ts';
import { LiveServers } from '../src/platform/db/live-servers.ts';
import { SCHEMA_VERSION } from '../src/platform/db/migrate.ts';
import { NO_NOTIFICATIONS, type Notifications } from '../src/platform/db/notifications.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import type { RequestContext, Route } from '../src/platform/http/route.ts';
import { HeldClaims } from '../src/platform/idempotency/held-claims.ts';
import { EventOutbox } from '../src/platform/outbox/event-outbox.ts';
import { SqlProjectRepository } from '../src/platform/tenancy/project-repository.ts';
import { artifactContentsOf, keepArtifactOf } from './artifact-parts.ts';
import { coordinationOf } from './coordination.ts';
import { SETTINGS } from './sandbox-settings.ts';
import { seed } from './seeded-organizations.ts';
import { NO_SHARED_LAYERS } from './shared-layers.ts';
import { SILENT } from './silent.ts';
import { openBeside, openTestDatabase } from './test-database.ts';
import { contextOf, type TestRequest } from './test-request.ts';

export function openSandboxes(settings: Partial<SandboxSettings> = {}): Promise<SandboxesWorld> {
  return openWorld(SandboxesWorld, settings);
}

export async function openWorld<World extends SandboxesWorld>(
  World: new (...parts: ConstructorParameters<typeof SandboxesWorld>) => World,
  settings: Partial<SandboxSettings> = {},
): Promise<World> {
  const db = await openTestDatabase();
  await seed(db);
  const driver = new FakeRuntimeDriver();
  const clock = new FakeClock();
  const ids = new SequentialIds();
  const world = new World(db, driver, clock, ids, { ...SETTINGS, ...settings });
  await world.start();
  return world;
}

export class SandboxesWorld implements AsyncDisposable {
  readonly db: Database;
  readonly driver: FakeRuntimeDriver;
  readonly clock: FakeClock;
  readonly ids: SequentialIds;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly artifacts: SqlArtifactRepository;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly limits: Limits;
  metrics = new Registry();
  readonly settings: SandboxSettings;
  readonly serverId: string;
  readonly liveServers: LiveServers;
  /** How often the server has looked whether it has. */
  fenceLooks = 0;
  readonly notifications: Notifications;
  readonly coordination: Coordination;
  #usage!: Usage;
  #templates!: Templates;
  #held = new HeldClaims();
  /** The requests that were under way when the server lost its lease. */
  #lost: HeldClaims | undefined;
  #requests = 0;
  #sharesConnection = false;
  #server: ReturnType<typeof composeSandboxes>;

  constructor(
    db: Database,
    driver: FakeRuntimeDriver,
    clock: FakeClock,
    ids: SequentialIds,
    settings: SandboxSettings,
    serverId = 'srv_1',
    notifications = NO_NOTIFICATIONS,
  ) {
    this.db = db;
    this.driver = driver;
    this.clock = clock;
    this.ids = ids;
    this.transactions = new Transactions(db);
    this.outbox = new EventOutbox(db, clock, ids);
    this.artifacts = new SqlArtifactRepository(db, this.transactions, this.outbox);
    this.projects = new ProjectAccess(new SqlProjectRepository(db));
    this.quotas = new Quotas({ ...this, defaults: {} });
    this.limits = this.quotas.limits;
    this.settings = settings;
    this.serverId = serverId;
    this.liveServers = new LiveServers(db, serverId, clock);
    this.notifications = notifications;
    const fence = { ...OPEN_FENCE, look: () => this.#looksFenced() };
    this.coordination = coordinationOf({ db, ids, clock, servers: this.liveServers, notifications, fence });
    this.#server = this.#compose();
  }

  /** Whether the server has lost its lease. When it looks, it ends the requests that were under way at the loss. */
  get isFenced(): boolean {
    return this.#lost !== undefined;
  }

  set isFenced(isFenced: boolean) {
    if (isFenced === this.isFenced) return;
    // A renewal of the lease looks too.
    this.#lost?.abandonAll();
    this.#lost = isFenced ? this.#held : undefined;
    if (isFenced) this.#held = new HeldClaims();
  }

  get server() {
    return this.#server;
  }

  get usage(): Usage {
    return this.#usage;
  }

  get routes(): readonly Route[] {
    return [
      ...this.#server.routes,
      ...this.#templates.routes,
      ...this.#usage.routes({ sandboxes: this.#server.core.access, projects: this.projects }),
    ];
  }

  async start(): Promise<void> {
    await this.renewLease();
    await this.#server.start();
    await this.#templates.start();
    await this.until(async () => (await this.call(operations.listTemplates)).data.length > 0);
  }

  /** Replaces the server by a new one without its memory, as after `kill -9` and a start. */
  async crash(): Promise<void> {
    const [dead, deadTemplates] = [this.#server, this.#templates];
    this.metrics = new Registry();
    this.#server = this.#compose();
    // Ends only the timers and connections of the old server.
    await deadTemplates.stop();
    await dead.stop();
    await this.start();
  }

  /** Starts another server of the same database and host. The caller disposes it before this world. */
  async beside(serverId: string, clock = this.clock): Promise<this> {
    const World = this.constructor as new (...parts: ConstructorParameters<typeof SandboxesWorld>) => this;
    const { driver, ids, settings } = this;
    const other = new World(await openBeside(this.db), driver, clock, ids, settings, serverId);
    other.#sharesConnection = other.db === this.db;
    await other.start();
    return other;
  }

  /** Makes the server count as living from now on, however far tests advance the clock. */
  async renewLease(): Promise<void> {
    const lease = { id: this.serverId, lease_until: Number.MAX_SAFE_INTEGER, schema_version: SCHEMA_VERSION };
    const insert = this.db.insertInto('server_leases').values(lease);
    await insert.onConflict((conflict) => conflict.column('id').doUpdateSet(lease)).execute();
  }

  /** Makes the server count as dead from now on, though it goes on: as one that was stopped or cut off for long. */
  async loseLease(): Promise<void> {
    await this.db.deleteFrom('server_leases').where('id', '=', this.serverId).execute();
  }

  async call<const O extends Operation>(operation: O, call: TestRequest = {}): Promise<ResponseOf<O>> {
    const found = this.routes.find((route) => route.operation.id === operation.id);
    if (found?.kind !== 'json') throw new Error(`${operation.id} is no JSON route`);
    // The route was bound to this operation, so it answers with this operation's response.
    return (await found.handle(this.context(call))) as ResponseOf<O>;
  }

  async stream(call: TestRequest): Promise<AsyncIterable<CodeRunEvent>> {
    const found = this.routes.find((route) => route.operation.id === 'streamCode');
    if (found?.kind !== 'stream') throw new Error('streamCode is no stream route');
    return (await found.handle(this.context(call))) as AsyncIterable<CodeRunEvent>;
  }

  async create(body: unknown = {}, call: TestRequest = {}): Promise<Sandbox> {
    return (await this.call(operations.createSandbox, { ...call, body })).sandbox;
  }

  async createReady(body: unknown = {}): Promise<SandboxId> {
    const { id } = await this.create(body);
    await this.waitFor(id, 'ready');
    return id;
  }

  async get(sandboxId: SandboxId): Promise<Sandbox> {
    return (await this.call(operations.getSandbox, { params: { sandboxId } })).sandbox;
  }

  async waitFor(sandboxId: SandboxId, waitFor: SandboxStatus): Promise<Sandbox> {
    const query = { waitFor, waitMs: 60_000 };
    return (await this.call(operations.getSandbox, { params: { sandboxId }, query })).sandbox;
  }

  async kill(sandboxId: SandboxId): Promise<Sandbox> {
    return (await this.call(operations.killSandbox, { params: { sandboxId } })).sandbox;
  }

  async run(
    sandboxId: SandboxId,
    code: string,
    body: Record<string, unknown> = {},
    call: TestRequest = {},
  ): Promise<CodeRun> {
    const request = { ...call, params: { sandboxId }, body: { code, language: 'python', ...body } };
    return (await this.call(operations.runCode, request)).run;
  }

  /**
   * Checks on every turn of the event loop, and after some turns less often, because each check takes processor time.
   */
  async until(holds: () => Promise<boolean> | boolean): Promise<void> {
    const giveUpAt = Date.now() + 60_000;
    for (let looks = 1; !(await holds()); looks++) {
      if (Date.now() > giveUpAt) throw new Error('the condition never held');
      await (looks < 50 ? nextTurn() : delay(2));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.driver.isDown = false;
    await this.#templates.stop();
    await this.#server.stop();
    if (!this.#sharesConnection) await this.db.destroy();
  }

  #compose() {
    this.#usage = composeUsage({ ...this, log: SILENT });
    const server = composeSandboxes({
      ...this.coordination,
      db: this.db,
      usage: this.#usage,
      transactions: this.transactions,
      outbox: this.outbox,
      projects: this.projects,
      quotas: this.quotas,
      auditLog: new AuditLog({ ...this, signer: new MarkSigner(Buffer.alloc(32, 1)) }),
      ids: this.ids,
      log: SILENT,
      driver: this.driver,
      settings: this.settings,
      metrics: this.metrics,
      keepArtifact: keepArtifactOf(this),
      isFenced: () => this.#looksFenced(),
    });
    this.#templates = composeTemplates({
      ...this,
      sandboxes: server.core,
      contents: artifactContentsOf(this),
      defaultRegistry: 'docker.io',
      imageLayers: NO_SHARED_LAYERS,
      log: SILENT,
    });
    return server;
  }

  #looksFenced(): boolean {
    this.fenceLooks += 1;
    this.#lost?.abandonAll();
    return this.isFenced;
  }

  /** Returns the work of a request that has an Idempotency-Key. */
  #claimedWork(): AbortController {
    const [owner, work] = [String(this.#requests++), new AbortController()];
    this.#held.add(owner);
    this.#held.setWork(owner, work);
    return work;
  }

  context(request: TestRequest): RequestContext<Operation> {
    const signal = request.signal ?? this.#claimedWork().signal;
    return contextOf({ ...request, signal }, this.clock);
  }
}
