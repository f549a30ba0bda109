import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Prefixes of the names of links, by class. */
export interface LinkPrefixes {
  open: string;
  gated: string;
}

/**
 * Lets sandbox traffic pass Docker's firewall. Docker drops unknown forwarded traffic and leaves the chain
 * `DOCKER-USER` to the host's owner. An accept in our table does not override that, so traffic must be accepted there
 * as well. Does nothing on a host without Docker. Idempotent.
 */
export async function addDockerUserRules(links: LinkPrefixes): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(links)) {
    if (!(await succeeds('iptables', '-w', '5', '-C', ...rule))) await execute('iptables', ['-w', '5', '-I', ...rule]);
  }
}

/** Removes the rules from Docker's chain. Idempotent. */
export async function removeDockerUserRules(links: LinkPrefixes): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(links)) await succeeds('iptables', '-w', '5', '-D', ...rule);
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
  return matches.map((match) => ['DOCKER-USER', ...match, '-j', 'ACCEPT']);
}

/** Uses nft, because iptables would create missing tables. */
function hasChain(): Promise<boolean> {
  return succeeds('nft', 'list', 'chain', 'ip', 'filter', 'DOCKER-USER');
}

function succeeds(program: string, ...args: string[]): Promise<boolean> {
  return execute(program, args).then(
    () => true,
    () => false,
  );
}
