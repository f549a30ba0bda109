import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/**
 * Docker's firewall drops what it does not know of all that the host forwards, and leaves the chain `DOCKER-USER` to the
 * host's owner. What an accepting rule of ours says holds for our table alone, so traffic of sandboxes has to be let
 * through there as well. Does nothing where Docker is not. Idempotent.
 */
export async function admitThroughDocker(linkPrefix: string): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(linkPrefix)) {
    if (!(await succeeds('iptables', '-w', '5', '-C', ...rule))) await execute('iptables', ['-w', '5', '-I', ...rule]);
  }
}

/** Takes that back. Idempotent. */
export async function withdrawFromDocker(linkPrefix: string): Promise<void> {
  if (!(await hasChain())) return;
  for (const rule of rulesFor(linkPrefix)) await succeeds('iptables', '-w', '5', '-D', ...rule);
}

function rulesFor(linkPrefix: string): string[][] {
  const links = `${linkPrefix}+`;
  return [
    ['DOCKER-USER', '-i', links, '-j', 'ACCEPT'],
    ['DOCKER-USER', '-o', links, '-m', 'conntrack', '--ctstate', 'RELATED,ESTABLISHED', '-j', 'ACCEPT'],
  ];
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
