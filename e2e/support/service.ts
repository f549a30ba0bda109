/**
 * Starts a complete Cloche with real sandboxes for a test file, or shares one between files, and leaves nothing behind.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sandbox } from '@cloche/contract';
import { runPaths } from '@cloche/layout';
import type { CreateKey } from '@cloche/protocol';
import type { ProcessName, Programs } from '@cloche/setup';
import { compileCache } from '@cloche/testkit/compile-cache';
import { eventually } from '@cloche/testkit/eventually';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { HttpClient } from '../../bench/src/http-client.ts';
import type { Api } from './api.ts';
import { accessTo, type Operator, type Whereabouts } from './service-access.ts';
import { appointHeir } from './service-heir.ts';

export interface TestService {
  readonly url: string;
  /** API with a key of every scope. */
  readonly api: Api;
  readonly apiKey: string;
  /** Id in the names of everything that the service creates on the host. */
  readonly installationId: string;
  readonly runDir: string;
  readonly dataDir: string;
  pid(part: ProcessName): number;
  /** Returns the name of a sandbox's instance on the host: in its folders, control groups and containers. */
  instanceKey(sandboxId: string): string;
  /** Kills an instance's processes without telling the service, as a crash would. */
  killInstance(sandboxId: string): Promise<void>;
  createOrg(name: string): Promise<string>;
  /** Sets quotas of an organization. Null: no limit. */
  limitOrg(org: string, quotas: Record<string, number | null>): Promise<void>;
  /** Creates a key of the organization of `api`, unless the request names another one. */
  createKey(request: CreateKey): Promise<string>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** Service that no other file uses meanwhile, so a test may end its processes. */
export interface LentService extends TestService {
  /** Number of its servers. */
  readonly servers: number;
  /**
   * Sends SIGKILL, and resolves when the process is gone. It is not started again. `server` is each of several servers.
   */
  kill(part: ProcessName): Promise<void>;
  /** Sends a signal to one process. */
  signal(part: ProcessName, signal: NodeJS.Signals): void;
  /** `server` is each of several servers. */
  restart(part: ProcessName): Promise<void>;
}

/** Service that no other file has used or will use. */
export interface OwnService extends LentService {
  /** Ends the processes, and leaves the data folder and the sandboxes. Only `close` may follow. */
  stop(): Promise<void>;
}

/** Description of a shared service that test files receive. */
interface SharedPlace extends Whereabouts {
  readonly pids: Readonly<Partial<Record<ProcessName, number>>>;
}

/** Environment variable of test files whose stage has a shared service. */
const SHARED_PLACE = 'E2E_SHARED_SERVICE';
/** Environment variable of test files whose services have several servers: the folder of the socket of PostgreSQL. */
export const SHARED_POSTGRES = 'E2E_POSTGRES';
/** Servers of a service in the stage that tests several. */
const SERVERS = 3;
/**
 * Small enough that tests use both kinds of instances: pooled ones, and launched ones when the pool is empty. The
 * launch of one, with its agent and zygote, takes half a second of processor time, and one to three with gVisor.
 */
const SMALL_POOL = { CLOCHE_POOL_SIZE: '1' };
/** Half of the default, because tests wait until servers that they killed count as dead. */
const SHORT_LEASE = { CLOCHE_SERVER_LEASE_MS: '15000' };
/** Longest time until a killed server counts as dead and its work has been taken over. */
export const TAKEN_OVER_MS = 60_000;
/** Settings of a service that answers every protocol. */
export const ALL_PROTOCOLS = {
  CLOCHE_E2B: 'on',
  CLOCHE_JUPYTER: 'on',
  CLOCHE_MCP: 'on',
  CLOCHE_RUN_APIS: 'dify,piston,sandbox-fusion',
};
/**
 * Servers load the modules of the protocols that they answer at each start. A test of one shares a service, or switches
 * it on.
 */
const NO_PROTOCOLS = { CLOCHE_E2B: 'off', CLOCHE_JUPYTER: 'off', CLOCHE_MCP: 'off' };

export interface ServiceOptions {
  readonly servers?: number;
  readonly apiKey?: string;
  /** Programs in place of those of the processes. */
  readonly programs?: Programs;
}

/**
 * Starts a service on a free port, whatever else `env` sets, and on a new data folder unless the caller passes one. It
 * answers `/v1` alone, unless `env` sets more.
 */
export async function testService(
  env: Record<string, string> = {},
  givenDataDir?: string,
  options: ServiceOptions = {},
): Promise<OwnService> {
  const dataDir = givenDataDir ?? mkdtempSync(join(tmpdir(), 'cloche-e2e-'));
  const runDir = join('/run/cloche', seedInstallationId(dataDir));
  using unlessStarted = new DisposableStack();
  const heir = unlessStarted.use(appointHeir(dataDir, runDir));
  if (givenDataDir === undefined) {
    unlessStarted.defer(() => {
      for (const folder of [dataDir, runDir]) rmSync(folder, { recursive: true, force: true });
    });
  }
  const service = await startService(env, { dataDir, runDir, heir }, options);
  unlessStarted.move();
  return service;
}

/** Starts a service in folders that are there. */
async function startService(
  env: Record<string, string>,
  { dataDir, runDir, heir }: { dataDir: string; runDir: string; heir: Disposable },
  { apiKey = `e2e-${randomBytes(16).toString('hex')}`, programs, ...options }: ServiceOptions,
): Promise<OwnService> {
  // The server's user must be able to traverse the folder to reach its own.
  chmodSync(dataDir, 0o711);
  // Imported only here: files that share a service do not need the module.
  const database = options.servers === undefined ? await sharedDatabase(dataDir) : undefined;
  const servers = options.servers ?? (database === undefined ? 1 : SERVERS);

  const { startInstallation } = await import('@cloche/setup');
  const installation = await startInstallation({
    dataDir,
    runDir,
    servers,
    env: {
      CLOCHE_BOOTSTRAP_API_KEY: apiKey,
      ...SMALL_POOL,
      ...(servers > 1 && SHORT_LEASE),
      ...NO_PROTOCOLS,
      ...ociRuntime(),
      ...compileCache(),
      ...(database !== undefined && { CLOCHE_DATABASE_URL: database }),
      ...env,
    },
    supervise: false,
    // Several services start at once on a busy machine.
    readyTimeoutMs: 120_000,
    ...(programs && { programs }),
  });
  let closed: Promise<void> | undefined;
  const processesOf = (part: ProcessName) => (part === 'server' ? serverNames(servers) : [part]);
  const close = async () => {
    await installation.stop({ destroyAll: true });
    for (const folder of [dataDir, runDir]) rmSync(folder, { recursive: true, force: true });
    heir[Symbol.dispose]();
  };
  const { url, installationId } = installation;
  return {
    ...accessTo({ url, apiKey, installationId, runDir, dataDir }, installation.operator),
    pid(part) {
      const pid = installation.pid(part);
      if (pid === undefined) throw new Error(`${part} does not run`);
      return pid;
    },
    async kill(part) {
      const processes = processesOf(part);
      for (const each of processes) installation.kill(each, 'SIGKILL');
      await eventually(() => processes.every((each) => installation.pid(each) === undefined));
    },
    signal: (part, signal) => installation.kill(part, signal),
    async restart(part) {
      await Promise.all(processesOf(part).map((each) => installation.restart(each)));
      // The load balancer finds out a moment later that a server is ready.
      if (servers > 1 && part.startsWith('server')) await eventually(async () => (await fetch(`${url}/readyz`)).ok);
    },
    servers,
    stop: () => installation.stop(),
    close() {
      closed ??= close();
      return closed;
    },
  };
}

/**
 * Returns the service of the whole stage, with an organization for this file only. Starts a service where none is
 * shared, as when a file is run alone. For files that neither end the service's processes nor measure their growth.
 */
export async function sharedService(): Promise<TestService> {
  const shared = process.env[SHARED_PLACE];
  if (shared === undefined) return testService(ALL_PROTOCOLS);
  const { pids, ...place }: SharedPlace = JSON.parse(shared);
  return serviceOfAnOrg(place, (part) => pids[part]);
}

/** Returns a running service, with a new organization. `close` destroys the sandboxes of that organization. */
export async function serviceOfAnOrg(
  place: Whereabouts,
  findPid: (part: ProcessName) => number | undefined,
): Promise<TestService> {
  const operator: Operator = async (...operation) => {
    const client = new HttpClient({ socketPath: runPaths(place.runDir).operatorSocket });
    try {
      return await client.call(...operation);
    } finally {
      client.close();
    }
  };
  const { createOrg, createKey } = accessTo(place, operator);
  const org = await createOrg(`e2e-${process.pid}-${randomBytes(4).toString('hex')}`);
  const apiKey = await createKey({ org, scopes: ['*'] });
  const service = accessTo({ ...place, apiKey }, operator, org);
  const pid = (part: ProcessName) => {
    const found = findPid(part);
    if (found === undefined) throw new Error(`the service has no ${part} that runs`);
    return found;
  };
  return { ...service, pid, close: () => destroyAll(service.api) };
}

/** Passes a service to test files that start from now on. The caller closes it. */
export function shareService(service: TestService): void {
  const { url, apiKey, installationId, runDir, dataDir } = service;
  const pids = { hostd: service.pid('hostd'), egress: service.pid('egress'), server: service.pid('server') };
  const place: SharedPlace = { url, apiKey, installationId, runDir, dataDir, pids };
  process.env[SHARED_PLACE] = JSON.stringify(place);
}

/** Returns the URL of the database for a data folder, if the services of this test file have several servers. */
async function sharedDatabase(dataDir: string): Promise<string | undefined> {
  const sockets = process.env[SHARED_POSTGRES];
  if (sockets === undefined) return undefined;
  // Imported only here, because it loads the database of the server.
  const { databaseFor } = await import('./postgres.ts');
  return databaseFor(dataDir, sockets);
}

function serverNames(servers: number): ProcessName[] {
  return servers === 1 ? ['server'] : Array.from({ length: servers }, (_, index): ProcessName => `server-${index + 1}`);
}

/** Returns the names of all processes of a service. */
export function processNames(servers: number): ProcessName[] {
  return ['hostd', 'egress', ...serverNames(servers), ...(servers > 1 ? (['balancer'] as const) : [])];
}

/** Destroys every sandbox that the key can see. */
async function destroyAll(api: Api): Promise<void> {
  for (;;) {
    const { data } = (await api.get('/v1/sandboxes')).body as { data: Sandbox[] };
    if (data.length === 0) return;
    await Promise.all(data.map(({ id }) => api.delete(`/v1/sandboxes/${id}`)));
  }
}

/** Passes on the runtime of the test run, so that a suite can run with each runtime. */
function ociRuntime(): Record<string, string> {
  const { CLOCHE_OCI_RUNTIME } = process.env;
  return CLOCHE_OCI_RUNTIME === undefined ? {} : { CLOCHE_OCI_RUNTIME };
}
