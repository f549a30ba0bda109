import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';

const execute = promisify(execFile);

const HOOKS_OF_LEGACY: Readonly<Record<string, string>> = { INPUT: 'input', FORWARD: 'forward' };

/** Families of nftables whose chains see the packets of sandboxes, which have no IPv6. */
const IPV4_FAMILIES: ReadonlySet<string> = new Set(['ip', 'inet']);

const NftChain = Type.Object({
  family: Type.String(),
  table: Type.String(),
  name: Type.String(),
  hook: Type.Optional(Type.String()),
  policy: Type.Optional(Type.String()),
});
const NftListing = Type.Object({ nftables: Type.Array(Type.Object({ chain: Type.Optional(NftChain) })) });

/** A chain of a firewall of this host. */
export type FirewallChain = Static<typeof NftChain> & {
  /** Whether only `iptables-legacy` knows it. */
  isLegacy?: true;
};

/** Returns the chains of this host's firewalls for IPv4, without those of Cloche. Leaves out what cannot be read. */
export async function listFirewallChains(): Promise<FirewallChain[]> {
  const [chains, legacy] = await Promise.all([nftChains(), hasLegacyTables() ? legacyChains() : []]);
  const foreign = chains.filter(({ family, table }) => IPV4_FAMILIES.has(family) && !table.startsWith('cloche_'));
  return [...foreign, ...legacy];
}

/**
 * Returns whether rules of `iptables-legacy` are in force, which nft does not show. The kernel names tables that were
 * ever used.
 */
export function hasLegacyTables(): boolean {
  try {
    return readFileSync('/proc/thread-self/net/ip_tables_names', 'utf8').split('\n').includes('filter');
  } catch {
    return false;
  }
}

async function nftChains(): Promise<FirewallChain[]> {
  try {
    const { stdout } = await execute('nft', ['-j', 'list', 'chains'], { maxBuffer: 64 * 1024 * 1024 });
    return Value.Parse(NftListing, JSON.parse(stdout)).nftables.flatMap(({ chain }) => chain ?? []);
  } catch {
    return [];
  }
}

/** Reads lines such as `-P INPUT DROP` and `-N DOCKER-USER`. */
async function legacyChains(): Promise<FirewallChain[]> {
  const { stdout } = await execute('iptables-legacy', ['-S']).catch(() => ({ stdout: '' }));
  return [...stdout.matchAll(/^-[PN] (\S+)(?: (\S+))?$/gm)].map(([, name = '', policy]) => {
    const hook = HOOKS_OF_LEGACY[name];
    const base = { family: 'ip', table: 'filter', name, isLegacy: true as const };
    return { ...base, ...(hook && { hook }), ...(policy && { policy: policy.toLowerCase() }) };
  });
}
