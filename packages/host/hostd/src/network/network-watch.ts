import { readFileSync } from 'node:fs';
import { KeyedQueue } from '@cloche/node-support';
import type { HostWarning } from '@cloche/protocol';
import type { Logger } from 'pino';
import { hasLegacyTables, listFirewallChains } from './firewall-chains.ts';
import { NetworkChanges } from './network-changes.ts';
import type { Reachability } from './network-probe.ts';
import { isComplete, networkWarnings } from './network-warnings.ts';
import type { SandboxNetwork } from './sandbox-network.ts';

export interface NetworkWatchDeps {
  network: Pick<SandboxNetwork, 'repair' | 'passDocker' | 'probe'>;
  log: Logger;
}

/**
 * Keeps the network of sandboxes as it should be: restores Cloche's rules, and measures whether the host's firewalls let
 * sandboxes pass.
 */
export class NetworkWatch {
  readonly #deps: NetworkWatchDeps;
  readonly #changes = new NetworkChanges();
  readonly #measurements = new KeyedQueue<'measure'>();
  #warnings: readonly HostWarning[] = [];
  /** Whether something may have changed since the last measurement. */
  #isStale = true;
  #isFailing = false;
  readonly #closing = new AbortController();

  constructor(deps: NetworkWatchDeps) {
    this.#deps = deps;
  }

  /** The warnings of the last measurement. */
  get warnings(): HostWarning[] {
    return [...this.#warnings];
  }

  /** Restores rules that another program has removed, or that a firewall needs that was started since. */
  async restoreRules(): Promise<void> {
    const { network, log } = this.#deps;
    try {
      const hasChanged = this.#changes.take();
      if (hasChanged) this.#isStale = true;
      if (await network.repair()) {
        this.#isStale = true;
        log.warn({ operation: 'repair', outcome: 'the rules were gone and are back' });
      }
      // The kernel does not tell of changes of the legacy tables.
      if ((hasChanged || hasLegacyTables()) && (await network.passDocker())) {
        this.#isStale = true;
        log.info({ operation: 'repair', outcome: 'Docker lets sandboxes pass' });
      }
    } catch (err) {
      log.error({ operation: 'repair', outcome: 'failed', err });
    }
  }

  /** Measures, unless the last measurement found nothing amiss and nothing has changed since. */
  async measureIfChanged(signal: AbortSignal): Promise<void> {
    if (this.#isStale || this.#warnings.length > 0 || hasLegacyTables()) await this.measure(signal);
  }

  /** Measures now, and returns what keeps sandboxes from the network. Measurements run one after the other. */
  measure(caller: AbortSignal): Promise<HostWarning[]> {
    const signal = AbortSignal.any([caller, this.#closing.signal]);
    return this.#measurements.run('measure', async () => {
      this.#isStale = false;
      try {
        let reachability = await this.#deps.network.probe.measure(signal);
        // Again before a new warning: on a busy machine packets may take longer than a measurement waits.
        if (this.#isNew(await warningsFor(reachability))) {
          reachability = await this.#deps.network.probe.measure(signal);
        }
        this.#deps.log.debug({ operation: 'measure network', outcome: 'measured', reachability });
        if (!isComplete(reachability)) this.#isStale = true;
        this.#replace(await warningsFor(reachability));
        this.#isFailing = false;
      } catch (err) {
        this.#isStale = true;
        if (!signal.aborted && !this.#isFailing) {
          this.#deps.log.error({ operation: 'measure network', outcome: 'failed', err });
          this.#isFailing = true;
        }
      }
      return this.warnings;
    });
  }

  /** Ends measurements under way. */
  abort(): void {
    this.#closing.abort();
  }

  /** Call once nothing asks for more. */
  async close(): Promise<void> {
    this.abort();
    await this.#measurements.idle();
    this.#changes[Symbol.dispose]();
  }

  #isNew(found: readonly HostWarning[]): boolean {
    return found.some(({ check }) => !this.#warnings.some((known) => known.check === check));
  }

  /** Logs each warning when it appears and when it is gone. */
  #replace(found: readonly HostWarning[]): void {
    const { log } = this.#deps;
    const known = this.#warnings;
    this.#warnings = found;
    for (const warning of found) {
      if (!known.some(({ check }) => check === warning.check)) {
        log.warn({ operation: 'measure network', outcome: 'blocked', ...warning });
      }
    }
    for (const { check } of known) {
      if (!found.some((warning) => warning.check === check)) {
        log.info({ operation: 'measure network', outcome: 'passes', check });
      }
    }
  }
}

async function warningsFor(reachability: Reachability): Promise<HostWarning[]> {
  const forwards = readFileSync('/proc/sys/net/ipv4/ip_forward', 'utf8').trim() === '1';
  // Firewalls are asked for only where one blocks.
  const blocked = networkWarnings({ reachability, forwards, chains: [] });
  if (blocked.length === 0) return [];
  return networkWarnings({ reachability, forwards, chains: await listFirewallChains() });
}
