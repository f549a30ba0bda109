import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';

const IPV4_ROUTES = '/proc/net/fib_trie';
const IPV6_ADDRESSES = '/proc/net/if_inet6';
const KEPT_MS = 1000;

/** The host's own addresses of both families, as the kernel lists them. The list is at most a second old. */
export class OwnAddresses {
  #list = new BlockList();
  #readAt = Number.NEGATIVE_INFINITY;

  has(address: string): boolean {
    const now = performance.now();
    if (now - this.#readAt > KEPT_MS) {
      this.#list = new BlockList();
      for (const own of ownIpv4(readFileSync(IPV4_ROUTES, 'utf8'))) this.#list.addAddress(own);
      for (const own of ownIpv6(readIpv6())) this.#list.addAddress(own, 'ipv6');
      this.#readAt = now;
    }
    return isIP(address) > 0 && this.#list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
}

/** A kernel without IPv6 has no such file. */
function readIpv6(): string {
  try {
    return readFileSync(IPV6_ADDRESSES, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/** Returns the local addresses in a routing table. The table names each address on the line before its type. */
export function ownIpv4(fibTrie: string): Set<string> {
  return new Set(Array.from(fibTrie.matchAll(/\|-- ([0-9.]+)\n +\/32 host LOCAL/g), (match) => match[1] ?? ''));
}

/** Returns the addresses in a list of the kernel, whose lines begin with 32 hex digits. */
export function ownIpv6(list: string): string[] {
  const digits = Array.from(list.matchAll(/^[0-9a-f]{32}(?= )/gm), ([all]) => all);
  return digits.map((all) => all.match(/.{4}/g)?.join(':') ?? '');
}
