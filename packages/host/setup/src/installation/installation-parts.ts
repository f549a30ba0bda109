import { join } from 'node:path';
import { runPaths } from '@cloche/layout';
import { egressPaths } from '@cloche/protocol';
import { type EffectiveSetting, settingsFor } from '@cloche/settings';
import type { PreparedHost } from '../host/prepare-host.ts';
import { serverNames, writeBalancerConfig } from './balancer-config.ts';
import type { InstallationPaths } from './installation-paths.ts';
import { ManagedProcess, type ManagedProcessOptions } from './managed-process.ts';
import { environmentFor, overridesFor, type PartPlaces, type ServedAt } from './part-environment.ts';
import type { PartCommand } from './part-process.ts';
import { balancerCommand, commandFor, type ProcessName, type Programs, partOf } from './parts.ts';
import { type Address, waitUntilReady } from './readiness.ts';
import { RotatingLog } from './rotating-log.ts';
import { ServicesCgroup } from './services-cgroup.ts';

/** Time to stop a part, in addition to the time for its requests in progress: that of the systemd units. */
const STOP_GRACE_MS = 20_000;

export type PartsOptions = Pick<ManagedProcessOptions, 'supervise' | 'report' | 'readyTimeoutMs'> & {
  prepared: Pick<PreparedHost, 'accounts' | 'guestDir'>;
  paths: InstallationPaths & PartPlaces;
  servedAt: ServedAt;
  /** Number of servers. Several have a load balancer. */
  servers: number;
  settings: readonly EffectiveSetting[];
  env: Record<string, string>;
  programs: Programs;
};

/** The parts of one installation, which start and stop together. */
export class InstallationParts {
  readonly #options: PartsOptions;
  readonly #group: ServicesCgroup;
  /** In the order of their start. */
  readonly #parts: ReadonlyMap<ProcessName, ManagedProcess>;
  readonly #serverNames: readonly ProcessName[];

  constructor(options: PartsOptions) {
    this.#options = options;
    this.#group = new ServicesCgroup(options.paths.installationId);
    const names = serverNames(options.servers).map((name): ProcessName => `server-${name}`);
    this.#serverNames = options.servers === 1 ? ['server'] : names;
    const all: ProcessName[] = ['hostd', 'egress', ...this.#serverNames];
    if (options.servers > 1) all.push('balancer');
    this.#parts = new Map(all.map((name) => [name, this.#part(name)]));
  }

  /** @param name `server` is the first one of several */
  get(name: ProcessName): ManagedProcess {
    const found = this.#parts.get(name) ?? (name === 'server' ? this.#parts.get('server-1') : undefined);
    if (!found) throw new Error(`this installation has no ${name}`);
    return found;
  }

  get names(): ProcessName[] {
    return [...this.#parts.keys()];
  }

  /** Resolves when the API answers. When a part fails, stops all parts and throws the reason. */
  async start(): Promise<void> {
    const hostd = this.get('hostd')
      .start()
      .then(() => this.get('egress').start());
    // Servers load at the same time as hostd; they are ready only once hostd answers.
    const servers = Promise.all(this.#serverNames.map((name) => this.get(name).start()));
    const balancer = servers.then(() => this.#parts.get('balancer')?.start());
    const starting = [hostd, servers, balancer];
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

  /**
   * Stops all parts. The load balancer stops after the servers, so that clients get the answers to requests in
   * progress. Idempotent.
   */
  async stop(): Promise<void> {
    await Promise.all(this.#serverNames.map((name) => this.get(name).stop()));
    for (const name of ['balancer', 'egress', 'hostd'] as const) await this.#parts.get(name)?.stop();
    await this.#group.remove();
  }

  #part(name: ProcessName): ManagedProcess {
    const { paths, supervise, report, readyTimeoutMs } = this.#options;
    const [address, path] = this.#healthOf(name);
    const command = this.#commandOf(name);
    return new ManagedProcess({
      name,
      command,
      // Only servers have this setting.
      stopGraceMs: STOP_GRACE_MS + Number(command.env.CLOCHE_DRAIN_MS ?? 0),
      log: new RotatingLog(logFileOf(name, paths)),
      ready: (signal) => waitUntilReady(address, path, signal),
      onSpawn: (pid) => this.#group.join(pid),
      ...{ supervise, report, readyTimeoutMs },
    });
  }

  #healthOf(name: ProcessName): [Address, string] {
    const { paths, servedAt } = this.#options;
    const { runDir, dataDir } = paths;
    if (name === 'hostd') return [{ socketPath: runPaths(runDir).hostdSocket }, '/health'];
    if (name === 'egress') return [{ socketPath: egressPaths(runDir, dataDir).controlSocket }, '/health'];
    const serverName = serverNameOf(name);
    return [serverName === undefined ? servedAt : { socketPath: runPaths(runDir, serverName).apiSocket }, '/readyz'];
  }

  #commandOf(name: ProcessName): PartCommand {
    const { prepared, paths, servedAt, servers, settings, env, programs } = this.#options;
    if (name === 'balancer') {
      const trustedProxies = settingsFor('server', settings).CLOCHE_TRUSTED_PROXIES;
      const file = writeBalancerConfig({ runDir: paths.runDir, servedAt, servers, trustedProxies });
      return { command: balancerCommand(prepared.accounts, file), env: {} };
    }
    const part = partOf(name);
    const serverName = serverNameOf(name);
    return {
      command: commandFor(part, prepared, paths, programs),
      env: {
        ...environmentFor(part, prepared, paths, servedAt, settings),
        ...overridesFor(part, env),
        ...(serverName !== undefined && { CLOCHE_SERVER_NAME: serverName }),
      },
    };
  }
}

/** Returns the name of one of several servers. */
function serverNameOf(name: ProcessName): string | undefined {
  return name.startsWith('server-') ? name.slice('server-'.length) : undefined;
}

/** Returns the path of a part's log. */
export function logFileOf(name: ProcessName, { logsDir }: InstallationPaths): string {
  return join(logsDir, `${name}.log`);
}
