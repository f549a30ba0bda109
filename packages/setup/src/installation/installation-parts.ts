import { join } from 'node:path';
import { runPaths } from '@cloche/layout';
import { egressPaths } from '@cloche/protocol';
import type { EffectiveSetting } from '@cloche/settings';
import type { PreparedHost } from '../host/prepare-host.ts';
import type { InstallationPaths } from './installation-paths.ts';
import { Part, type PartOptions } from './part.ts';
import { environmentFor, overridesFor, type ServedAt } from './part-environment.ts';
import { commandFor, PART_NAMES, type PartName, type Programs } from './parts.ts';
import { PartsGroup } from './parts-group.ts';
import { waitUntilReady } from './readiness.ts';
import { RotatingLog } from './rotating-log.ts';

/** Time that a part needs to stop, besides what its requests in progress take. */
const STOP_GRACE_MS = 10_000;

export type PartsOptions = Pick<PartOptions, 'supervise' | 'report' | 'readyTimeoutMs'> & {
  prepared: Pick<PreparedHost, 'accounts' | 'guestDir'>;
  paths: InstallationPaths & { cacheDir: string };
  servedAt: ServedAt;
  settings: readonly EffectiveSetting[];
  env: Record<string, string>;
  programs: Programs;
};

/** The parts of one installation, which start and stop together. */
export class InstallationParts {
  readonly #group: PartsGroup;
  readonly #parts: Record<PartName, Part>;

  constructor(options: PartsOptions) {
    const { runDir, dataDir } = options.paths;
    const { hostdSocket } = runPaths(runDir);
    const { controlSocket } = egressPaths(runDir, dataDir);
    const ready: Record<PartName, PartOptions['ready']> = {
      hostd: (signal) => waitUntilReady({ socketPath: hostdSocket }, '/health', signal),
      egress: (signal) => waitUntilReady({ socketPath: controlSocket }, '/health', signal),
      server: (signal) => waitUntilReady(options.servedAt, '/readyz', signal),
    };
    this.#group = new PartsGroup(options.paths.installationId);
    const onSpawn = (pid: number) => this.#group.join(pid);
    const part = (name: PartName) => new Part({ ...partOptions(name, ready[name], options), onSpawn });
    this.#parts = { hostd: part('hostd'), egress: part('egress'), server: part('server') };
  }

  get(name: PartName): Part {
    return this.#parts[name];
  }

  /** Resolves when the API answers. When a part fails, stops all parts and throws the reason. */
  async start(): Promise<void> {
    const { hostd, egress, server } = this.#parts;
    // The server loads at the same time as hostd; it is ready only once hostd answers.
    const starting = [hostd.start().then(() => egress.start()), server.start()];
    try {
      await Promise.all(starting);
    } catch (error) {
      await this.stop();
      // Stop again, for a part that was still starting during the first stop.
      await Promise.allSettled(starting);
      await this.stop();
      throw error;
    }
  }

  /** Stops the parts in reverse order of their start. Idempotent. */
  async stop(): Promise<void> {
    for (const name of PART_NAMES.toReversed()) await this.#parts[name].stop();
    await this.#group.remove();
  }
}

/** Returns the path of a part's log. */
export function logFileOf(name: PartName, { logsDir }: InstallationPaths): string {
  return join(logsDir, `${name}.log`);
}

function partOptions(name: PartName, ready: PartOptions['ready'], options: PartsOptions): Omit<PartOptions, 'onSpawn'> {
  const { prepared, paths: places, servedAt, settings, env, programs, supervise, report, readyTimeoutMs } = options;
  const own = { ...environmentFor(name, prepared, places, servedAt, settings), ...overridesFor(name, env) };
  return {
    name,
    command: { command: commandFor(name, prepared, places, programs), env: own },
    // Only the server has this setting.
    stopGraceMs: STOP_GRACE_MS + Number(own.CLOCHE_DRAIN_MS ?? 0),
    log: new RotatingLog(logFileOf(name, places)),
    ...{ ready, supervise, report, readyTimeoutMs },
  };
}
