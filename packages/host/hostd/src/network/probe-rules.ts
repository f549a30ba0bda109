/** An address of a documentation range (RFC 5737), which no host of the internet has and no packet of ours reaches. */
export const OUTSIDE_ADDRESS = '192.0.2.1';

const PROBED_CLASSES = ['open', 'gated'] as const;
export type ProbedClass = (typeof PROBED_CLASSES)[number];

/** Addresses that only hostd itself has, in namespaces of its own. */
export interface ProbeAddresses extends Record<ProbedClass, string> {
  /** Address behind another link of the host, which answers. `open` and `gated` stand for sandboxes of each class. */
  target: string;
}

/** Matches for the links of one class, such as `iifname "cl*"` and `oifname "cl*"`. */
export interface LinkMatches {
  from: string;
  to: string;
}

/**
 * Returns the rules that let the packets of a probe pass Cloche's own chain of forwarded packets: a probe measures the
 * other firewalls of this host. No sandbox has the addresses, and the chain before has verified them.
 */
export function probePassage(addresses: ProbeAddresses, links: Readonly<Record<ProbedClass, LinkMatches>>): string {
  const { target } = addresses;
  const rules = PROBED_CLASSES.flatMap((linkClass) => {
    const { from, to } = links[linkClass];
    return [
      `${from} ip saddr ${addresses[linkClass]} ip daddr { ${OUTSIDE_ADDRESS}, ${target} } accept`,
      `${to} ip saddr ${target} ip daddr ${addresses[linkClass]} ct state established accept`,
    ];
  });
  return rules.join('\n    ');
}

/** Returns the chain that counts and drops what a probe sends to the internet, where it would leave the host. */
export function probeTrap(addresses: ProbeAddresses): string {
  const counters = PROBED_CLASSES.map((linkClass) => `counter ${counterOf(linkClass)} { }`);
  const rules = PROBED_CLASSES.map(
    (linkClass) =>
      `ip saddr ${addresses[linkClass]} ip daddr ${OUTSIDE_ADDRESS} counter name ${counterOf(linkClass)} drop`,
  );
  return `
  ${counters.join('\n  ')}

  chain probe_trap {
    type filter hook postrouting priority srcnat - 1; policy accept;
    ${rules.join('\n    ')}
  }`;
}

/**
 * Returns how many packets of a class the trap in a table has counted.
 *
 * @param list runs an nft command and returns what it prints
 */
export function countArrivals(table: string, linkClass: ProbedClass, list: (command: string) => string): number {
  const printed = list(`list counter inet ${table} ${counterOf(linkClass)}`);
  return Number(/packets (\d+)/.exec(printed)?.[1] ?? 0);
}

function counterOf(linkClass: ProbedClass): string {
  return `probe_arrivals_${linkClass}`;
}
