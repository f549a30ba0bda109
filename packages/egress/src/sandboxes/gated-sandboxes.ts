import { isDeepStrictEqual } from 'node:util';
import type { GatedSandbox, GatedSandboxList } from '@cloche/protocol';
import { readPolicy } from '../policy/egress-policy.ts';
import type { EgressShares } from '../shares/egress-shares.ts';
import type { Connector } from '../upstream/connector.ts';
import { SandboxTraffic } from './sandbox-traffic.ts';

/** Which sandbox is at which address. Whoever is not here is refused everything. */
export class GatedSandboxes {
  readonly #connector: Connector;
  readonly #shares: EgressShares;
  readonly #byAddress = new Map<string, { entry: GatedSandbox; traffic: SandboxTraffic }>();

  constructor(connector: Connector, shares: EgressShares) {
    this.#connector = connector;
    this.#shares = shares;
  }

  find(address: string | undefined): SandboxTraffic | undefined {
    return address === undefined ? undefined : this.#byAddress.get(address)?.traffic;
  }

  /** Of all of them. */
  get connectionCount(): number {
    return this.#byAddress.values().reduce((sum, { traffic }) => sum + traffic.connectionCount, 0);
  }

  list(): GatedSandboxList['sandboxes'] {
    return Array.from(this.#byAddress, ([address, { entry }]) => ({ address, ...entry }));
  }

  /**
   * Idempotent. Another sandbox or another policy at the address ends what was under way there. Throws for a policy that
   * cannot be read, and changes nothing then.
   */
  put(address: string, entry: GatedSandbox): void {
    const known = this.#byAddress.get(address);
    if (isDeepStrictEqual(known?.entry, entry)) return;
    const traffic = new SandboxTraffic(address, entry, this.#connector, this.#shares);
    this.#byAddress.set(address, { entry, traffic });
    known?.traffic.end();
  }

  /** Puts these and deletes all others. Throws for a policy that cannot be read, and changes nothing then. */
  replaceAll(sandboxes: GatedSandboxList['sandboxes']): void {
    for (const { policy } of sandboxes) readPolicy(policy);
    const wanted = new Set(sandboxes.map(({ address }) => address));
    for (const address of this.#byAddress.keys()) if (!wanted.has(address)) this.delete(address);
    for (const { address, ...entry } of sandboxes) this.put(address, entry);
  }

  /** Idempotent. */
  delete(address: string): void {
    const known = this.#byAddress.get(address);
    this.#byAddress.delete(address);
    known?.traffic.end();
  }

  /** Ends all traffic. */
  clear(): void {
    for (const address of this.#byAddress.keys()) this.delete(address);
  }
}
