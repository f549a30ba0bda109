import { isIP } from 'node:net';
import type { LaunchSpec } from '@cloche/protocol';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { type DatagramSandbox, datagramCommands } from './datagram-rules.ts';

/** Addresses that the datagrams of a sandbox do not go to; undefined where none of its datagrams are forwarded. */
export function deniedToDatagrams({ mode, hosts = [] }: LaunchSpec['network']): string[] | undefined {
  return mode === 'denylist' ? hosts.filter((host) => isIP(host) === 4) : undefined;
}

export interface DatagramGateOptions {
  /** Tables that hold the sets. The first is hostd's own, so it is always there. */
  tables: readonly [guard: string, rules: string];
  /** Runs commands of nft as one transaction. */
  apply: (commands: string) => void;
  /** Makes the second table anew, with `sandboxes()`, where something on the host took it away. */
  reinstall: () => Promise<void>;
}

/** Which gated sandboxes send datagrams. One that is not listed sends none, so every failure closes. */
export class DatagramGate {
  readonly #options: DatagramGateOptions;
  readonly #bySlot = new Map<number, DatagramSandbox>();

  /** @param living the addresses that are denied to each sandbox of an earlier hostd, by slot. */
  constructor(options: DatagramGateOptions, living: ReadonlyMap<number, readonly string[]>) {
    this.#options = options;
    for (const [slot, denied] of living) this.#bySlot.set(slot, describe(slot, denied));
  }

  sandboxes(): DatagramSandbox[] {
    return [...this.#bySlot.values()];
  }

  /** Resolves when its datagrams flow, but to the denied addresses: both in one transaction. */
  async open(slot: number, denied: readonly string[]): Promise<void> {
    await this.close(slot);
    const sandbox = describe(slot, denied);
    this.#bySlot.set(slot, sandbox);
    await this.#change('add', sandbox);
  }

  /** Idempotent. */
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
