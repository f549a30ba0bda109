import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { type Finding, ok, warning } from './finding.ts';

const run = promisify(execFile);
const NAME = 'firewall';

const Chain = Type.Object({
  table: Type.String(),
  name: Type.String(),
  hook: Type.Optional(Type.String()),
  policy: Type.Optional(Type.String()),
});
const Listing = Type.Object({ nftables: Type.Array(Type.Object({ chain: Type.Optional(Chain) })) });

/** Checks whether another firewall of this host drops sandbox traffic: every firewall has to accept a packet. */
export async function checkFirewall(list = listChains): Promise<Finding> {
  const chains = await list().catch(() => []);
  const dropping = chains.filter(({ hook, policy }) => hook === 'forward' && policy === 'drop');
  const [first] = dropping;
  if (!first) return ok(NAME, 'forwards');
  const places = dropping.map(({ table, name }) => `${table} ${name}`).join(', ');
  // hostd adds rules to this chain that accept sandbox traffic.
  if (dropping.length === 1 && first.name === 'FORWARD' && chains.some(({ name }) => name === 'DOCKER-USER')) {
    return ok(NAME, 'Docker’s, which lets sandboxes through');
  }
  return warning(
    NAME,
    `drops forwarded packets (${places})`,
    'Sandboxes have no network until it accepts forwarded packets from and to links named cl*, and datagrams of ce*: with nft, `iifname "cl*" accept`, `iifname "ce*" meta l4proto { udp, icmp } accept` and `oifname "cl*"` and `oifname "ce*"` with `ct state established,related accept`.',
  );
}

async function listChains(): Promise<Static<typeof Chain>[]> {
  const { stdout } = await run('nft', ['-j', 'list', 'chains']);
  return Value.Parse(Listing, JSON.parse(stdout)).nftables.flatMap(({ chain }) => chain ?? []);
}
