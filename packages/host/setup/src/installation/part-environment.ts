import { join } from 'node:path';
import { type EffectiveSetting, isGivenTo, OPERATOR_SETTINGS, settingsFor } from '@cloche/settings';
import type { PreparedHost } from '../host/prepare-host.ts';
import type { InstallationPaths } from './installation-paths.ts';
import type { PartName } from './parts.ts';

/** Variables of the operator's environment that the parts inherit; others may hold unrelated secrets. */
const INHERITED =
  /^(PATH|LANG|LC_\w+|TZ|NODE_EXTRA_CA_CERTS|NODE_OPTIONS|NODE_V8_COVERAGE|SSL_CERT_FILE|SSL_CERT_DIR|(https?|no|all)_proxy)$/i;

/** Variables with credentials for the server alone: of an S3 bucket, and of the collector of traces. */
const OF_THE_SERVER = /^(AWS|OTEL)_\w+$/;

export type ServedAt = { host: string; port: number };

/** Folders that the parts learn from their environment. */
export type PartPlaces = Pick<InstallationPaths, 'dataDir' | 'runDir'> & {
  cacheDir: string;
  /** Result of `ensureCompiledCode`. */
  compiledDir?: string | undefined;
};

/** Returns the complete environment of one part. */
export function environmentFor(
  part: PartName,
  host: Pick<PreparedHost, 'accounts' | 'guestDir'>,
  places: PartPlaces,
  servedAt: ServedAt,
  settings: readonly EffectiveSetting[],
): Record<string, string> {
  return {
    ...Object.fromEntries(
      Object.entries(process.env).flatMap(([name, value]) =>
        value !== undefined && isInherited(name, part) ? [[name, value]] : [],
      ),
    ),
    ...settingsFor(part, settings),
    CLOCHE_DATA_DIR: places.dataDir,
    CLOCHE_RUN_DIR: places.runDir,
    CLOCHE_CACHE_DIR: places.cacheDir,
    ...(places.compiledDir !== undefined && { NODE_COMPILE_CACHE: join(places.compiledDir, part) }),
    ...(part === 'hostd' && {
      CLOCHE_SERVICE_UID: `${host.accounts.server.uid}`,
      CLOCHE_SERVICE_GID: `${host.accounts.server.gid}`,
      CLOCHE_GUEST_DIR: host.guestDir,
    }),
    ...(part === 'server' && { CLOCHE_HOST: servedAt.host, CLOCHE_PORT: `${servedAt.port}` }),
  };
}

function isInherited(name: string, part: PartName): boolean {
  return INHERITED.test(name) || (part === 'server' && OF_THE_SERVER.test(name));
}

/** Returns the variables for one part: its settings, and variables that are not settings. */
export function overridesFor(part: PartName, env: Record<string, string> = {}): Record<string, string> {
  const ofOthers = new Set<string>(
    OPERATOR_SETTINGS.filter((setting) => !isGivenTo(part, setting)).map(({ name }) => name),
  );
  return Object.fromEntries(Object.entries(env).filter(([name]) => !ofOthers.has(name)));
}
