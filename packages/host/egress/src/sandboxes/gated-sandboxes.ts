import { isDeepStrictEqual } from 'node:util';
import type { GatedSandbox, GatedSandboxList } from '@cloche/protocol';
import { readPolicy } from '../policy/egress-policy.ts';
import { SandboxTraffic, type TrafficDeps } from './sandbox-traffic.ts';

/** The gated sandboxes by address. Connections from any other address are refused. */
export class GatedSandboxes {
  readonly #deps: TrafficDeps;
  readonly #byAddress = new Map<string, { entry: GatedSandbox; traffic: SandboxTraffic }>();

  constructor(deps: TrafficDeps) {
    this.#deps = deps;
  }

  find(address: string | undefined): SandboxTraffic | undefined {
    return address === undefined ? undefined : this.#byAddress.get(address)?.traffic;
  }

  /** Open connections of all sandboxes together. */
  get connectionCount(): number {
    return this.#byAddress.values().reduce((sum, { traffic }) => sum + traffic.connectionCount, 0);
  }

  list(): GatedSandboxList['sandboxes'] {
    return Array.from(this.#byAddress, ([address, { entry }]) => ({ address, ...entry }));
  }

  /**
   * Sets the sandbox at an address. Idempotent. If the sandbox or its policy changes, connections from that address are
   * ended. Throws for an invalid policy, and then changes nothing.
   */
  put(address: string, entry: GatedSandbox): void {
    const known = this.#byAddress.get(address);
    if (isDeepStrictEqual(known?.entry, entry)) return;
    const traffic = new SandboxTraffic(address, entry, this.#deps);
    this.#byAddress.set(address, { entry, traffic });
    known?.traffic.end();
  }

  /** Sets these sandboxes and deletes all others. Throws for an invalid policy, and then changes nothing. */
  replaceAll(sandboxes: GatedSandboxList['sandboxes']): void {
    for (const { policy } of sandboxes) readPolicy(policy);
    const wanted = new Set(sandboxes.map(({ address }) => address));
    for (const address of this.#byAddress.keys()) if (!wanted.has(address)) this.delete(address);
    for (const { address, ...entry } of sandboxes) this.put(address, entry);
  }

  /** Deletes a sandbox and ends its traffic. Idempotent. */
  delete(address: string): void {
    const known = this.#byAddress.get(address);
    this.#byAddress.delete(address);
    known?.traffic.end();
  }

  /** Deletes all sandboxes and ends their traffic. */
  clear(): void {
    for (const address of this.#byAddress.keys()) this.delete(address);
  }
}
