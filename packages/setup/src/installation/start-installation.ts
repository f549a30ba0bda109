import { createServer } from 'node:net';
import { join } from 'node:path';
import { InstanceList, runPlaces } from '@cloche/protocol';
import { Value } from 'typebox/value';
import { type PreparedHost, prepareHost } from '../host/prepare-host.ts';
import { type EffectiveSetting, effectiveSettings } from '../settings.ts';
import { preparePlaces } from './installation-places.ts';
import { Part } from './part.ts';
import { environmentFor, overridesFor } from './part-environment.ts';
import { commandFor, PART_NAMES, type PartName, PROGRAMS, type Programs } from './parts.ts';
import { type Address, waitUntilReady } from './readiness.ts';
import { RotatingLog } from './rotating-log.ts';
import { callSocket } from './socket-client.ts';

export type InstallationOptions = {
  dataDir: string;
  /** Default `/run/cloche/<installationId>`. */
  runDir?: string;
  /** Default `/var/cache/cloche`; shared by the installations of a host. */
  cacheDir?: string;
  /** Default 0: a free one. */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Further variables; a setting reaches the parts alone that read it. */
  env?: Record<string, string>;
  /** The settings in force; those of no environment at all where left out. */
  settings?: readonly EffectiveSetting[];
  /** What `prepareHost` gave; it is called where this is left out. */
  prepared?: Pick<PreparedHost, 'account' | 'guestDir'>;
  /** Start a part again when it dies. Default true. */
  supervise?: boolean;
  /** For one part to answer. Default 30 s. */
  readyTimeoutMs?: number;
  /** A line for the operator, such as that a part died. */
  report?: (line: string) => void;
  /** Tests put stand-ins in their place. */
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
  /** Undefined while it does not run. */
  pid(part: PartName): number | undefined;
  kill(part: PartName, signal: NodeJS.Signals): void;
  /** Ends it as `stop` does, starts it and waits until it answers. */
  restart(part: PartName): Promise<void>;
  /** One operation of the operator's socket. */
  operator(method: 'GET' | 'POST', path: string, message?: unknown): ReturnType<typeof callSocket>;
  /** Live instances, as hostd counts them. */
  instanceCount(): Promise<number>;
  /** Ends server, egress and hostd in this order. Sandboxes stay unless asked otherwise. Idempotent. */
  stop(options?: { destroyAll?: boolean }): Promise<void>;
};

/**
 * Starts hostd, egress and the server of one installation and resolves when the API answers. Installations with
 * different data folders run side by side. When it fails, what it started is ended.
 *
 * @throws {SetupProblem} when a part does not get ready.
 */
export async function startInstallation(options: InstallationOptions): Promise<Installation> {
  const { cacheDir = '/var/cache/cloche', host = '127.0.0.1' } = options;
  const prepared = options.prepared ?? (await prepareHost({ cacheDir }));
  const places = await preparePlaces(options.dataDir, options.runDir, prepared.account);
  const port = options.port || (await findFreePort(host));
  const settings = options.settings ?? effectiveSettings({});
  const run = runPlaces(places.runDir);
  const servedAt: Address = { host, port };

  const logs = Object.fromEntries(
    PART_NAMES.map((name) => [name, new RotatingLog(join(places.logsDir, `${name}.log`))]),
  ) as Record<PartName, RotatingLog>; // One for each name, which `fromEntries` cannot say.
  const part = (name: PartName, ready: (signal: AbortSignal) => Promise<void>) =>
    new Part({
      name,
      command: {
        command: commandFor(name, prepared, places, options.programs ?? PROGRAMS),
        env: {
          ...environmentFor(name, prepared, { ...places, cacheDir }, servedAt, settings),
          ...overridesFor(name, options.env),
        },
      },
      log: logs[name],
      ready,
      readyTimeoutMs: options.readyTimeoutMs ?? 30_000,
      supervise: options.supervise ?? true,
      report: options.report ?? (() => {}),
    });
  const parts: Record<PartName, Part> = {
    hostd: part('hostd', (signal) => waitUntilReady({ socketPath: run.hostdSocket }, '/health', signal)),
    egress: part('egress', async () => {}),
    server: part('server', (signal) => waitUntilReady(servedAt, '/readyz', signal)),
  };

  const operator = (method: 'GET' | 'POST', path: string, message?: unknown) =>
    callSocket(run.operatorSocket, method, path, message);
  const stop = async ({ destroyAll = false } = {}) => {
    if (destroyAll && parts.server.pid !== undefined) await operator('POST', '/destroy-all');
    for (const name of PART_NAMES.toReversed()) await parts[name].stop();
  };
  try {
    // The server loads while hostd does; it is ready only when hostd answers.
    await Promise.all([parts.hostd.start().then(() => parts.egress.start()), parts.server.start()]);
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    installationId: places.installationId,
    dataDir: places.dataDir,
    runDir: places.runDir,
    logs: { hostd: logs.hostd.file, egress: logs.egress.file, server: logs.server.file },
    pid: (name) => parts[name].pid,
    kill: (name, signal) => parts[name].kill(signal),
    restart: async (name) => {
      await parts[name].stop();
      await parts[name].start();
    },
    operator,
    instanceCount: async () => {
      const { body } = await callSocket(run.hostdSocket, 'GET', '/instances');
      return Value.Parse(InstanceList, body).instances.length;
    },
    stop,
  };
}

function findFreePort(host: string): Promise<number> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port: 0 }, () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
