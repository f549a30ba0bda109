import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import { newInstallationId } from '@cloche/testkit/installation-ids';
import { type HostdConfig, readConfig } from '../src/host/config.ts';
import { Templates, type TemplateVersion } from '../src/storage/templates.ts';

/** Id of the user and of the group that own the agents' sockets in tests. Debian has both, without rights. */
export const SERVICE_ID = 65_534;

/** An installation for one test, in its own folder. */
export interface TestInstallation extends Disposable {
  environment: Record<string, string>;
  config: HostdConfig;
}

export function makeInstallation(settings: Record<string, string> = {}): TestInstallation {
  // A short path: those of Unix sockets have at most 107 bytes.
  const dir = mkdtempSync('/tmp/cloche-');
  chmodSync(dir, 0o755);
  const folders = { data: join(dir, 'data'), run: join(dir, 'run'), guest: join(dir, 'guest') };
  for (const folder of Object.values(folders)) mkdirSync(folder, { mode: 0o755 });
  writeFileSync(join(folders.data, 'installation-id'), newInstallationId());
  const environment = {
    CLOCHE_DATA_DIR: folders.data,
    CLOCHE_RUN_DIR: folders.run,
    CLOCHE_CACHE_DIR: process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche',
    CLOCHE_GUEST_DIR: folders.guest,
    CLOCHE_OCI_RUNTIME: process.env.CLOCHE_OCI_RUNTIME ?? 'crun',
    CLOCHE_SERVICE_UID: String(SERVICE_ID),
    CLOCHE_SERVICE_GID: String(SERVICE_ID),
    CLOCHE_POOL_SIZE: '0',
    CLOCHE_LOG_LEVEL: 'trace',
    ...settings,
  };
  return {
    environment,
    config: readConfig(environment),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Makes the spec of a small sandbox, from the newest template that was built on this machine. */
export async function makeSpec(config: HostdConfig, changes: SpecChanges = {}): Promise<LaunchSpec> {
  const builtAt = ({ manifest }: TemplateVersion) => Date.parse(manifest.builtAt);
  // The newest, because instances are launched ahead only from the newest versions.
  const [template] = (await new Templates(config.templatesDir).list()).sort((a, b) => builtAt(b) - builtAt(a));
  if (!template) throw new Error(`no template in ${config.templatesDir}: build one first`);
  const { mode = 'deny-all', hosts, ...resources } = changes;
  return {
    source: { kind: 'template', templateVersionId: template.manifest.id },
    resources: { cpu: 1, memoryBytes: 256 * MEBIBYTE, diskBytes: 64 * MEBIBYTE, pids: 64, ...resources },
    network: { mode, ...(hosts && { hosts }) },
  };
}

export type SpecChanges = Partial<LaunchSpec['resources'] & LaunchSpec['network']>;

export const MEBIBYTE = 1024 * 1024;
