import { readFileSync } from 'node:fs';

/** Returns the entries of the host's connection tracking that an address has opened, in the kernel's format. */
export function trackedFlows(address: string): string[] {
  // The first address of a line is the one that opened the flow.
  return readFileSync('/proc/net/nf_conntrack', 'utf8')
    .split('\n')
    .filter((line) => / src=(\S+) /.exec(line)?.[1] === address);
}
