import { join, resolve } from 'node:path';
import { clocheCommand, runPaths } from '@cloche/layout';
import { findFreePort } from '@cloche/node-support';
import { InstanceList } from '@cloche/protocol';
import { type EffectiveSetting, effectiveSettings, settingsFor } from '@cloche/settings';
import { Value } from 'typebox/value';
import { type Lock, tryLock } from '../build-lock.ts';
import { type PreparedHost, prepareHost } from '../host/prepare-host.ts';
import { SetupError } from '../progress.ts';
import { ensureCompiledCode } from './compiled-code.ts';
import { arrangeCompressedSwap, endWithCompressedSwap } from './compressed-swap.ts';
import { InstallationParts, logFileOf } from './installation-parts.ts';
import { type InstallationPaths, preparePaths } from './installation-paths.ts';
import { type PartName, PROGRAMS, type ProcessName, type Programs } from './parts.ts';
import { callSocket } from './socket-client.ts';

/**
 * Time in which the lock of an installation that was just killed becomes free: another process holds it, and ends too.
 */
const LOCK_WAIT_MS = 3_000;

export type InstallationOptions = {
  dataDir: string;
  /** Default `/run/cloche/<installationId>`. */
  runDir?: string;
  /** Default `/var/cache/cloche`; shared by the installations of a host. */
  cacheDir?: string;
  /** Default 0: a free port. */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Number of servers. Several share one PostgreSQL database behind a load balancer. Default: 1. */
  servers?: number;
  /** Further variables; a setting reaches only the parts that read it. */
  env?: Record<string, string>;
  /** Settings in force; the defaults when left out. */
  settings?: readonly EffectiveSetting[];
  /** Result of `prepareHost`, which is called when this is left out. */
  prepared?: Pick<PreparedHost, 'accounts' | 'guestDir'>;
  /** Whether to restart a part that dies. Default true. */
  supervise?: boolean;
  /** Time without an answer after which a part that does not compute counts as failed. Default 30 s. */
  readyTimeoutMs?: number;
  /** Shows a line to the operator, for example that a part died. */
  report?: (line: string) => void;
  /** Programs of the parts; tests replace them. */
  programs?: Programs;
};

export type Installation = {
  readonly url: string;
  readonly port: number;
  readonly installationId: string;
  readonly dataDir: string;
  readonly runDir: string;
  /** Log files, by part. */
  readonly logs: Record<PartName, string>;
  /** Undefined while the part does not run. */
  pid(part: ProcessName): number | undefined;
  kill(part: ProcessName, signal: NodeJS.Signals): void;
  /** Stops the part as `stop` does, starts it and waits until it answers. */
  restart(part: ProcessName): Promise<void>;
  /** Sends one request to the operator's socket. */
  operator(method: 'GET' | 'POST' | 'PATCH', path: string, message?: unknown): ReturnType<typeof callSocket>;
  /** Number of live instances according to hostd. */
  instanceCount(): Promise<number>;
  /**
   * Stops server, egress and hostd in this order. Sandboxes keep running unless `destroyAll` is true. Idempotent.
   *
   * @throws Error if a sandbox could not be destroyed; everything is stopped all the same
   */
  stop(options?: { destroyAll?: boolean }): Promise<void>;
};

/**
 * Starts hostd, egress and the server of one installation and resolves when the API answers. Installations with
 * different data folders can run at the same time. After a failure, all started parts are stopped.
 *
 * @throws {SetupError} when a part does not get ready, or the data folder is in use.
 */
export async function startInstallation(options: InstallationOptions): Promise<Installation> {
  const cacheDir = resolve(options.cacheDir ?? '/var/cache/cloche');
  const host = options.host ?? '127.0.0.1';
  const servers = options.servers ?? 1;
  const settings = options.settings ?? effectiveSettings({});
  if (servers > 1) requireSharedDatabase(options.env?.CLOCHE_DATABASE_URL ?? databaseUrlOf(settings));
  const prepared = options.prepared ?? (await prepareHost({ cacheDir, balancer: servers > 1 }));
  const runDir = options.runDir && resolve(options.runDir);
  const places = await preparePaths(resolve(options.dataDir), runDir, prepared.accounts);
  const lock = await lockData(places);
  const servedAt = { host, port: options.port || (await findFreePort(host)) };
  // Tests bring a cache of their own, and other programs have none.
  const isOwnCode = options.env?.NODE_COMPILE_CACHE === undefined && options.programs === undefined;
  const compiledDir = isOwnCode ? await ensureCompiledCode(cacheDir, places.codeDir, prepared.accounts) : undefined;
  const parts = new InstallationParts({
    prepared,
    paths: { ...places, cacheDir, compiledDir },
    servedAt,
    servers,
    settings,
    env: options.env ?? {},
    programs: options.programs ?? PROGRAMS,
    supervise: options.supervise ?? true,
    report: options.report ?? (() => {}),
    readyTimeoutMs: options.readyTimeoutMs ?? 30_000,
  });
  try {
    await arrangeCompressedSwap(
      places.installationId,
      options.env?.CLOCHE_ZRAM ?? settingsFor('setup', settings).CLOCHE_ZRAM,
    );
    await parts.start();
  } catch (error) {
    await lock.release();
    throw error;
  }
  return describe(places, servedAt, parts, lock);
}

/** @throws {SetupError} for a database that only one server can use */
export function requireSharedDatabase(url: string | undefined): void {
  if (url !== undefined && /^postgres(ql)?:/.test(url)) return;
  throw new SetupError(
    'Several servers need one PostgreSQL database, because a SQLite database has one server.',
    `Set CLOCHE_DATABASE_URL to postgres://user:password@host/database, or start one server. \`${clocheCommand('admin copy-database')}\` moves the records.`,
  );
}

export function databaseUrlOf(settings: readonly EffectiveSetting[]): string | undefined {
  return settings.find(({ name }) => name === 'CLOCHE_DATABASE_URL')?.value;
}

/** Locks the data folder: two hostds on the same one would each remove the other's launches. */
async function lockData({ dataDir }: InstallationPaths): Promise<Lock> {
  const lock = await tryLock(join(dataDir, 'lock'), LOCK_WAIT_MS);
  if (lock) return lock;
  throw new SetupError(
    `Another Cloche runs from ${dataDir}.`,
    'Use that one, or set CLOCHE_DATA_DIR to a folder of its own.',
  );
}

function describe(
  places: InstallationPaths,
  { host, port }: { host: string; port: number },
  parts: InstallationParts,
  lock: Lock,
): Installation {
  const { hostdSocket, operatorSocket } = runPaths(places.runDir);
  const operator: Installation['operator'] = (...operation) => callSocket(operatorSocket, ...operation);
  let hasStopped = false;
  const instanceCount = async () => {
    const { body } = await callSocket(hostdSocket, 'GET', '/instances');
    return Value.Parse(InstanceList, body).instances.length;
  };
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    installationId: places.installationId,
    dataDir: places.dataDir,
    runDir: places.runDir,
    logs: {
      hostd: logFileOf('hostd', places),
      egress: logFileOf('egress', places),
      server: logFileOf('server', places),
    },
    pid: (name) => parts.get(name).pid,
    kill: (name, signal) => parts.get(name).kill(signal),
    restart: async (name) => {
      await parts.get(name).stop();
      await parts.get(name).start();
    },
    operator,
    instanceCount,
    stop: async ({ destroyAll = false } = {}) => {
      try {
        if (destroyAll && !hasStopped) await destroyEverySandbox(parts, operator);
      } finally {
        hasStopped = true;
        await endWithCompressedSwap(places.installationId, instanceCount, () => parts.stop()).finally(lock.release);
      }
    },
  };
}

/** Starts hostd and the first server again if they have died, because sandboxes survive them. */
async function destroyEverySandbox(parts: InstallationParts, operator: Installation['operator']): Promise<void> {
  for (const name of ['hostd', 'server'] as const) if (parts.get(name).pid === undefined) await parts.get(name).start();
  const { status, body } = await operator('POST', '/destroy-all');
  if (status !== 200) throw new Error(`some sandboxes were not destroyed: ${JSON.stringify(body)}`);
}
