/** A whole Cloche for a test file, its own or one that several share: real sandboxes, and nothing left afterwards. */
import { randomBytes } from 'node:crypto';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Sandbox } from '@cloche/contract';
import { dataPlaces, runPlaces } from '@cloche/layout';
import type { CreateKey, KeyCreated, OrgCreated } from '@cloche/protocol';
import type { Installation, PartName } from '@cloche/setup';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { HttpClient } from '../../bench/src/http-client.ts';
import { Api } from './api.ts';
import { eventually } from './eventually.ts';

export interface TestService {
  readonly url: string;
  /** Speaks with a key of every scope. */
  readonly api: Api;
  readonly apiKey: string;
  /** What everything of it on the host carries in its name. */
  readonly installationId: string;
  readonly runDir: string;
  readonly dataDir: string;
  pid(part: PartName): number;
  /** What a sandbox's instance is called on the host: in its folders, control groups and containers. */
  instanceKey(sandboxId: string): string;
  /** Ends an instance's processes behind the service's back, as a crash of the host's would. */
  killInstance(sandboxId: string): Promise<void>;
  createOrg(name: string): Promise<string>;
  /** Of the organization of `api`, unless the request names another. */
  createKey(request: CreateKey): Promise<string>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** One that nobody else uses, so that its parts may end. */
export interface OwnService extends TestService {
  /** SIGKILL; resolves when the process is gone. It is not started again. */
  kill(part: PartName): Promise<void>;
  restart(part: PartName): Promise<void>;
}

/** Where a service is, and what a test may know of it. */
interface Whereabouts {
  readonly url: string;
  readonly apiKey: string;
  readonly installationId: string;
  readonly runDir: string;
  readonly dataDir: string;
}

/** What those who share a service are told of it. */
interface SharedPlace extends Whereabouts {
  readonly pids: Readonly<Record<PartName, number>>;
}

/** In the environment of the test files of a stage whose service is shared. */
const SHARED_PLACE = 'E2E_SHARED_SERVICE';
/** So that tests meet instances of both kinds: claimed ones, and where those run out, launched ones. */
const SMALL_POOL = { CLOCHE_POOL_SIZE: '2' };

/** A free port, whatever else is set by `env`, and a fresh data folder unless the caller has one. */
export async function testService(
  env: Record<string, string> = {},
  dataDir = mkdtempSync(join(tmpdir(), 'cloche-e2e-')),
): Promise<OwnService> {
  seedInstallationId(dataDir);
  // The server's user finds its own folder in it.
  chmodSync(dataDir, 0o711);
  const apiKey = `e2e-${randomBytes(16).toString('hex')}`;
  // Loaded late: those who share a service have no need of it.
  const { startInstallation } = await import('@cloche/setup');
  const installation = await startInstallation({
    dataDir,
    env: { CLOCHE_BOOTSTRAP_API_KEY: apiKey, ...SMALL_POOL, ...ociRuntime(), ...compileCache(), ...env },
    supervise: false,
  });
  let closed: Promise<void> | undefined;
  const close = async () => {
    for (const part of ['hostd', 'server'] as const)
      if (installation.pid(part) === undefined) await installation.restart(part);
    await installation.stop({ destroyAll: true });
    for (const folder of [dataDir, installation.runDir]) rmSync(folder, { recursive: true, force: true });
  };
  const { url, installationId, runDir } = installation;
  return {
    ...describe({ url, apiKey, installationId, runDir, dataDir }, installation.operator),
    pid(part) {
      const pid = installation.pid(part);
      if (pid === undefined) throw new Error(`${part} does not run`);
      return pid;
    },
    async kill(part) {
      installation.kill(part, 'SIGKILL');
      await eventually(() => installation.pid(part) === undefined);
    },
    restart: (part) => installation.restart(part),
    close() {
      closed ??= close();
      return closed;
    },
  };
}

/**
 * That of the whole stage, with an organization of this file's own; where nothing is shared, as when a file is run by
 * itself, a service of its own. For files that neither end parts of it nor measure how these grow.
 */
export async function sharedService(): Promise<TestService> {
  const shared = process.env[SHARED_PLACE];
  if (shared === undefined) return testService();
  const { pids, ...place }: SharedPlace = JSON.parse(shared);
  const operator: Operator = async (...operation) => {
    const client = new HttpClient({ socketPath: runPlaces(place.runDir).operatorSocket });
    try {
      return await client.call(...operation);
    } finally {
      client.close();
    }
  };
  const { createOrg, createKey } = describe(place, operator);
  const org = await createOrg(`e2e-${process.pid}-${randomBytes(4).toString('hex')}`);
  const apiKey = await createKey({ org, scopes: ['*'] });
  const service = describe({ ...place, apiKey }, operator, org);
  return { ...service, pid: (part) => pids[part], close: () => destroyAll(service.api) };
}

/** Starts a service and says so to the test files that are started from now on. The caller closes it. */
export async function shareService(): Promise<TestService> {
  const service = await testService();
  const { url, apiKey, installationId, runDir, dataDir } = service;
  const pids = { hostd: service.pid('hostd'), egress: service.pid('egress'), server: service.pid('server') };
  const place: SharedPlace = { url, apiKey, installationId, runDir, dataDir, pids };
  process.env[SHARED_PLACE] = JSON.stringify(place);
  return service;
}

type Operator = Installation['operator'];

function describe(place: Whereabouts, operator: Operator, org?: string) {
  const { hostdDir } = dataPlaces(place.dataDir);
  /** As hostd wrote it down. */
  const instanceKey = (sandboxId: string) => {
    const isIts = (file: string) => readIfThere(join(hostdDir, file)).includes(`"sandboxId":"${sandboxId}"`);
    const record = globSync('instances/*/instance.json', { cwd: hostdDir }).find(isIts);
    if (record === undefined) throw new Error(`no instance of ${sandboxId}`);
    return basename(dirname(record));
  };
  return {
    ...place,
    api: new Api(place.url, place.apiKey),
    instanceKey,
    async killInstance(sandboxId: string) {
      const group = `cloche-${place.installationId}/${instanceKey(sandboxId)}`;
      const pattern = `/sys/fs/cgroup/{,*/}${group}/**/cgroup.procs`;
      const pids = new Set(globSync(pattern).flatMap((file) => readFileSync(file, 'utf8').split('\n').filter(Boolean)));
      if (pids.size === 0) throw new Error(`no process of ${sandboxId} in ${pattern}`);
      for (const pid of pids) killIfThere(Number(pid));
    },
    async createOrg(name: string) {
      return ((await operator('POST', '/orgs', { name })).body as OrgCreated).org.id;
    },
    async createKey(request: CreateKey) {
      return ((await operator('POST', '/keys', { ...(org && { org }), ...request })).body as KeyCreated).key.secret;
    },
  };
}

/** With the first process of an instance others may end by themselves. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Every sandbox that the key can see. */
async function destroyAll(api: Api): Promise<void> {
  for (;;) {
    const { data } = (await api.get('/v1/sandboxes')).body as { data: Sandbox[] };
    if (data.length === 0) return;
    await Promise.all(data.map(({ id }) => api.delete(`/v1/sandboxes/${id}`)));
  }
}

/** Where whoever runs the tests keeps compiled code, the parts keep theirs too, which halves the time that they load. */
function compileCache(): Record<string, string> {
  const { NODE_COMPILE_CACHE } = process.env;
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
}

/** That of whoever runs the tests, so that a suite can be run with each of them. */
function ociRuntime(): Record<string, string> {
  const { CLOCHE_OCI_RUNTIME } = process.env;
  return CLOCHE_OCI_RUNTIME === undefined ? {} : { CLOCHE_OCI_RUNTIME };
}

/** Instances that wait for a sandbox come and go at any time. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
