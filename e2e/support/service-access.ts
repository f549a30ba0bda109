/** The interface of a running service that tests use. */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { dataPaths } from '@cloche/layout';
import type { CreateKey, KeyCreated, OrgCreated } from '@cloche/protocol';
import type { Installation } from '@cloche/setup';
import { Api } from './api.ts';

export type Operator = Installation['operator'];

/** Addresses and folders of a service that a test may use. */
export interface Whereabouts {
  readonly url: string;
  readonly apiKey: string;
  readonly installationId: string;
  readonly runDir: string;
  readonly dataDir: string;
}

/** Returns what a test may do with a service, with the key of `place`. Keys are created for `org` if it is given. */
export function accessTo(place: Whereabouts, operator: Operator, org?: string) {
  const { hostdDir } = dataPaths(place.dataDir);
  /** Reads the name from hostd's record of the instance. */
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
    async limitOrg(org: string, quotas: Record<string, number | null>) {
      await operator('PATCH', `/orgs/${org}/quotas`, quotas);
    },
    async createKey(request: CreateKey) {
      return ((await operator('POST', '/keys', { ...(org && { org }), ...request })).body as KeyCreated).key.secret;
    },
  };
}

/** Ignores a missing process: when an instance's first process is killed, others may end by themselves. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Returns an empty text when the file is gone: pooled instances may start and end at any time. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
