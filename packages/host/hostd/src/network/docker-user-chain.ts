import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { hasLegacyTables } from './firewall-chains.ts';

const execute = promisify(execFile);

/** Chain that Docker leaves to the host's owner. */
const CHAIN = 'DOCKER-USER';

/** Prefixes of the names of links, by class. */
export interface LinkPrefixes {
  open: string;
  gated: string;
}

/**
 * Lets sandbox traffic pass Docker's firewall. Docker drops unknown forwarded traffic and leaves the chain
 * `DOCKER-USER` to the host's owner. An accept in our table does not override that, so traffic must be accepted there
 * as well. Does nothing on a host without Docker. Idempotent. Returns whether rules were missing.
 */
export async function addDockerUserRules(links: LinkPrefixes): Promise<boolean> {
  let wereMissing = false;
  for (const { program, rules } of await findChains()) {
    for (const rule of rulesFor(links)) {
      if (rules.includes(`-A ${rule.join(' ')}`) || (await succeeds(program, '-w', '5', '-C', ...rule))) continue;
      await execute(program, ['-w', '5', '-I', ...rule]);
      wereMissing = true;
    }
  }
  return wereMissing;
}

/** Removes the rules from Docker's chain. Idempotent. */
export async function removeDockerUserRules(links: LinkPrefixes): Promise<void> {
  for (const { program } of await findChains()) {
    for (const rule of rulesFor(links)) await succeeds(program, '-w', '5', '-D', ...rule);
  }
}

/** Returns the iptables rules. On a gated link only datagrams are accepted: TCP stays refused there too. */
function rulesFor({ open, gated }: LinkPrefixes): string[][] {
  const answers = ['-m', 'conntrack', '--ctstate', 'RELATED,ESTABLISHED'];
  const matches = [
    ['-i', `${open}+`],
    ['-o', `${open}+`, ...answers],
    ...['udp', 'icmp'].flatMap((protocol) => [
      ['-i', `${gated}+`, '-p', protocol],
      ['-o', `${gated}+`, '-p', protocol, ...answers],
    ]),
  ];
  return matches.map((match) => [CHAIN, ...match, '-j', 'ACCEPT']);
}

/**
 * Returns the rules of Docker's chain, with the program that changes them. Two versions of iptables keep their rules in
 * two places of the kernel, and Docker uses the one that the host has chosen.
 */
async function findChains(): Promise<{ program: string; rules: string[] }[]> {
  const found: { program: string; rules: string[] }[] = [];
  // Asks nft first, because iptables would create missing tables.
  if (await succeeds('nft', 'list', 'chain', 'ip', 'filter', CHAIN)) {
    for (const program of ['iptables-nft', 'iptables']) {
      const rules = await listRules(program);
      if (rules) {
        found.push({ program, rules });
        break;
      }
    }
  }
  const legacyRules = hasLegacyTables() && (await listRules('iptables-legacy'));
  if (legacyRules) found.push({ program: 'iptables-legacy', rules: legacyRules });
  return found;
}

/** Returns undefined without the program, or without the chain. */
function listRules(program: string): Promise<string[] | undefined> {
  return execute(program, ['-w', '5', '-S', CHAIN]).then(
    ({ stdout }) => stdout.split('\n'),
    () => undefined,
  );
}

function succeeds(program: string, ...args: string[]): Promise<boolean> {
  return execute(program, args).then(
    () => true,
    () => false,
  );
}
