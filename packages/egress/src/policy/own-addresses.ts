import { readFileSync } from 'node:fs';

const ROUTES = '/proc/net/fib_trie';
const KEPT_MS = 1000;

/** The host's own addresses, as the kernel lists them. The list is at most a second old. */
export class OwnAddresses {
  #addresses = new Set<string>();
  #readAt = Number.NEGATIVE_INFINITY;

  has(address: string): boolean {
    const now = performance.now();
    if (now - this.#readAt > KEPT_MS) {
      this.#addresses = ownAddresses(readFileSync(ROUTES, 'utf8'));
      this.#readAt = now;
    }
    return this.#addresses.has(address);
  }
}

/** Returns the local addresses in a routing table. The table names each address on the line before its type. */
export function ownAddresses(fibTrie: string): Set<string> {
  return new Set(Array.from(fibTrie.matchAll(/\|-- ([0-9.]+)\n +\/32 host LOCAL/g), (match) => match[1] ?? ''));
}
