import { EGRESS_PORTS } from '@cloche/protocol';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, type Slots } from '../addressing/slots.ts';
import type { ProcessIdentity } from '../kernel/process-identity.ts';
import { type BoundPort, portsHeldAt } from './bound-ports.ts';

/** Where egress listens on the gateway address; the rules lead port 53 there. */
export const DNS_PORT = 10_053;

/** So many at once are no leftovers: something is wrong with this host. */
const MOST_UNUSABLE = 16;

/**
 * A slot at whose address egress can listen: what an installation that ended badly has left may hold the ports of one.
 * Such slots stay ours for a moment, so that the next try finds another.
 */
export function acquireGatewaySlot(slots: Slots, self: ProcessIdentity, heldAt = portsHeldAt): number {
  const unusable: number[] = [];
  try {
    for (;;) {
      const slot = slots.acquire(GATEWAY_PURPOSE, self);
      const { host } = addressesOfSlot(slot);
      const [held] = heldAt(host, [DNS_PORT, EGRESS_PORTS.tcp, EGRESS_PORTS.dns]);
      if (held === undefined) return slot;
      unusable.push(slot);
      if (held.address !== host || unusable.length > MOST_UNUSABLE) throw new Error(heldBySomebody(held));
    }
  } finally {
    for (const slot of unusable) slots.release(slot, GATEWAY_PURPOSE);
  }
}

function heldBySomebody({ address, port }: BoundPort): string {
  return `egress cannot listen: another program uses ${address}:${port}; find it with \`ss -lntup sport = :${port}\` and end it`;
}
