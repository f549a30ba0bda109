/** A whole Cloche of its own for one test file: fresh data folder, free port, real sandboxes; nothing left afterwards. */
import { randomBytes } from 'node:crypto';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { type CreateKey, dataPlaces, type KeyCreated, type OrgCreated } from '@cloche/protocol';
import { type PartName, startInstallation } from '@cloche/setup';
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
  /** SIGKILL; resolves when the process is gone. It is not started again. */
  kill(part: PartName): Promise<void>;
  restart(part: PartName): Promise<void>;
  /** What a sandbox's instance is called on the host: in its folders, control groups and containers. */
  instanceKey(sandboxId: string): string;
  /** Ends an instance's processes behind the service's back, as a crash of the host's would. */
  killInstance(sandboxId: string): Promise<void>;
  createOrg(name: string): Promise<string>;
  createKey(request: CreateKey): Promise<string>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** So that tests meet instances of both kinds: claimed ones, and where those run out, launched ones. */
const SMALL_POOL = { CLOCHE_POOL_SIZE: '2' };

export async function testService(env: Record<string, string> = {}): Promise<TestService> {
  const dataDir = mkdtempSync(join(tmpdir(), 'cloche-e2e-'));
  // The server's user finds its own folder in it.
  chmodSync(dataDir, 0o711);
  const apiKey = `e2e-${randomBytes(16).toString('hex')}`;
  const installation = await startInstallation({
    dataDir,
    env: { CLOCHE_BOOTSTRAP_API_KEY: apiKey, ...SMALL_POOL, ...ociRuntime(), ...env },
    supervise: false,
  });
  /** As hostd wrote it down. */
  const instanceKey = (sandboxId: string) => {
    const { hostdDir } = dataPlaces(dataDir);
    const isIts = (file: string) => readIfThere(join(hostdDir, file)).includes(`"sandboxId":"${sandboxId}"`);
    const record = globSync('instances/*/instance.json', { cwd: hostdDir }).find(isIts);
    if (record === undefined) throw new Error(`no instance of ${sandboxId}`);
    return basename(dirname(record));
  };
  let closed: Promise<void> | undefined;
  const close = async () => {
    for (const part of ['hostd', 'server'] as const)
      if (installation.pid(part) === undefined) await installation.restart(part);
    await installation.stop({ destroyAll: true });
    for (const folder of [dataDir, installation.runDir]) rmSync(folder, { recursive: true, force: true });
  };
  return {
    url: installation.url,
    api: new Api(installation.url, apiKey),
    apiKey,
    installationId: installation.installationId,
    runDir: installation.runDir,
    dataDir,
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
    instanceKey,
    async killInstance(sandboxId) {
      const group = `cloche-${installation.installationId}/${instanceKey(sandboxId)}`;
      const pattern = `/sys/fs/cgroup/{,*/}${group}/**/cgroup.procs`;
      const pids = new Set(globSync(pattern).flatMap((file) => readFileSync(file, 'utf8').split('\n').filter(Boolean)));
      if (pids.size === 0) throw new Error(`no process of ${sandboxId} in ${pattern}`);
      for (const pid of pids) process.kill(Number(pid), 'SIGKILL');
    },
    async createOrg(name) {
      const { org } = (await installation.operator('POST', '/orgs', { name })).body as OrgCreated;
      return org.id;
    },
    async createKey(request) {
      const { key } = (await installation.operator('POST', '/keys', request)).body as KeyCreated;
      return key.secret;
    },
    close() {
      closed ??= close();
      return closed;
    },
  };
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
