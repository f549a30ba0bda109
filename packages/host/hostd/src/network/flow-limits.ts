import { SLOT_COUNT } from '../addressing/address-plan.ts';

/**
 * Connections and other flows that one sandbox may have at a time, to hosts, to egress and to its resolver together.
 */
export const MAX_FLOWS = 4096;
/**
 * New flows a second that one sandbox may open. `MAX_FLOWS` does not include closing flows (TIME_WAIT, CLOSE), because
 * the kernel does not count them. They last `ENDING_SECONDS`, so a sandbox has at most twice this many.
 */
export const MAX_NEW_FLOWS_PER_SECOND = 2048;
const ENDING_SECONDS = 1;
/**
 * Entries of the host's connection tracking that one sandbox can hold: counted ones, a burst of new ones, and one more
 * second of new ones.
 */
export const MAX_TRACKED_ENTRIES = MAX_FLOWS + MAX_NEW_FLOWS_PER_SECOND * (1 + ENDING_SECONDS);
/**
 * Seconds that a look-up's entry lasts. A resolver answers within 5 s or is asked again. With the kernel's 30 s, 136
 * look-ups a second would fill the share.
 */
const LOOKUP_SECONDS = 10;

/**
 * Returns the rules that limit each sandbox's share of the host's connection tracking table, which all sandboxes and
 * the host share. Only packets that would create an entry are counted, by their source address, which the previous
 * chain has verified.
 *
 * @param fromLinks one match for each class of links, such as `iifname "cl*"`.
 */
export function flowLimitRules(fromLinks: readonly string[]): string {
  return `
  set flows { type ipv4_addr; size ${SLOT_COUNT}; flags dynamic; }
  set new_flows { type ipv4_addr; size ${SLOT_COUNT}; flags dynamic,timeout; timeout 1m; }

  ct timeout ending_soon {
    protocol tcp;
    l3proto ip;
    policy = { time_wait: ${ENDING_SECONDS}, close: ${ENDING_SECONDS} };
  }
  ct timeout lookup {
    protocol udp;
    l3proto ip;
    policy = { unreplied: ${LOOKUP_SECONDS}, replied: ${LOOKUP_SECONDS} };
  }

  chain shares {
    type filter hook prerouting priority mangle; policy accept;
    ${fromLinks.map((from) => `${from} jump share`).join('\n    ')}
  }

  chain share {
    ct state invalid drop
    ct status & confirmed == confirmed return
    meta l4proto tcp ct timeout set "ending_soon"
    udp dport 53 ct timeout set "lookup"
    update @new_flows { ip saddr limit rate over ${MAX_NEW_FLOWS_PER_SECOND}/second burst ${MAX_NEW_FLOWS_PER_SECOND} packets } goto refused
    add @flows { ip saddr ct count over ${MAX_FLOWS} } goto refused
  }`;
}
