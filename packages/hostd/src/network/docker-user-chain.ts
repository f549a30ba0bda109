import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** How the names of links begin, by class. */
export interface LinkPrefixes {
  open: string;
  gated: string;
}

/**
 * Docker's firewall drops what it does not know of all that the host forwards, and leaves the chain `DOCKER-USER` to the
 * host's owner. What an accepting rule of ours says holds for our table alone, so traffic of sandboxes has to be let
 * through there as well. Does nothing where Docker is not. Idempotent.
 */
export async function admitThroughDocker(links: LinkPrefixes): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(links)) {
    if (!(await succeeds('iptables', '-w', '5', '-C', ...rule))) await execute('iptables', ['-w', '5', '-I', ...rule]);
  }
}

/** Takes that back. Idempotent. */
export async function withdrawFromDocker(links: LinkPrefixes): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(links)) await succeeds('iptables', '-w', '5', '-D', ...rule);
}

/** The rules of a gated link are for its datagrams: its TCP stays refused there too. */
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

/** Asked of nft, as iptables would make the tables that it does not find. */
function hasChain(): Promise<boolean> {
  return succeeds('nft', 'list', 'chain', 'ip', 'filter', 'DOCKER-USER');
}

function succeeds(program: string, ...args: string[]): Promise<boolean> {
  return execute(program, args).then(
    () => true,
    () => false,
  );
}
