import { isIP } from 'node:net';
import type { LaunchSpec } from '@cloche/protocol';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { type DatagramSandbox, datagramCommands } from './datagram-rules.ts';

/**
 * Returns the addresses that a sandbox's datagrams may not reach; undefined where none of its datagrams are forwarded.
 */
export function deniedDatagramAddresses({ mode, hosts = [] }: LaunchSpec['network']): string[] | undefined {
  return mode === 'denylist' ? hosts.filter((host) => isIP(host) === 4) : undefined;
}

export interface DatagramGateOptions {
  /** Tables that hold the sets. The first belongs to this hostd, so it always exists. */
  tables: readonly [guard: string, rules: string];
  /** Runs nft commands as one transaction. */
  apply: (commands: string) => void;
  /** Recreates the second table, with `sandboxes()`, after another program on the host removed it. */
  reinstall: () => Promise<void>;
}

/**
 * Decides which gated sandboxes may send datagrams. A sandbox that is not listed may send none, so a failure blocks.
 */
export class DatagramGate {
  readonly #options: DatagramGateOptions;
  readonly #bySlot = new Map<number, DatagramSandbox>();

  /** @param living denied addresses of each running sandbox that an earlier hostd launched, by slot. */
  constructor(options: DatagramGateOptions, living: ReadonlyMap<number, readonly string[]>) {
    this.#options = options;
    for (const [slot, denied] of living) this.#bySlot.set(slot, describe(slot, denied));
  }

  sandboxes(): DatagramSandbox[] {
    return [...this.#bySlot.values()];
  }

  /** Resolves when the sandbox's datagrams flow, except to the denied addresses; one transaction sets both. */
  async open(slot: number, denied: readonly string[]): Promise<void> {
    await this.close(slot);
    const sandbox = describe(slot, denied);
    this.#bySlot.set(slot, sandbox);
    await this.#change('add', sandbox);
  }

  /** Stops the sandbox's datagrams. Idempotent. */
  async close(slot: number): Promise<void> {
    const sandbox = this.#bySlot.get(slot);
    if (sandbox === undefined) return;
    this.#bySlot.delete(slot);
    await this.#change('delete', sandbox);
  }

  async #change(verb: 'add' | 'delete', sandbox: DatagramSandbox): Promise<void> {
    const { tables, apply, reinstall } = this.#options;
    const [inGuard, inRules] = tables.map((table) => datagramCommands(verb, table, sandbox));
    try {
      apply(`${inGuard}\n${inRules}`);
    } catch {
      apply(`${inGuard}`);
      await reinstall();
    }
  }
}

function describe(slot: number, denied: readonly string[]): DatagramSandbox {
  return { address: addressesOfSlot(slot).sandbox, denied };
}
