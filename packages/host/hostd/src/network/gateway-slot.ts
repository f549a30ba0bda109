import { EGRESS_PORTS } from '@cloche/protocol';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, type Slots } from '../addressing/slots.ts';
import type { ProcessIdentity } from '../linux/process-identity.ts';
import { type BoundPort, boundPortsAt } from './bound-ports.ts';

/** Port where egress listens on the gateway address; the rules redirect port 53 there. */
export const DNS_PORT = 10_053;

/** Unusable slots tried before giving up; with more, the cause is not leftovers of an earlier run. */
const MAX_UNUSABLE = 16;

/**
 * Acquires a slot at whose address egress can listen: leftovers of an installation that ended badly may use the ports.
 * Unusable slots are held until the end, so that each try gets a different slot.
 */
export function acquireGatewaySlot(slots: Slots, self: ProcessIdentity, heldAt = boundPortsAt): number {
  const unusable: number[] = [];
  try {
    for (;;) {
      const slot = slots.acquire(GATEWAY_PURPOSE, self);
      const { host } = addressesOfSlot(slot);
      const [held] = heldAt(host, [DNS_PORT, EGRESS_PORTS.tcp, EGRESS_PORTS.dns]);
      if (held === undefined) return slot;
      unusable.push(slot);
      if (held.address !== host || unusable.length > MAX_UNUSABLE) throw new Error(portInUseMessage(held));
    }
  } finally {
    for (const slot of unusable) slots.release(slot, GATEWAY_PURPOSE);
  }
}

function portInUseMessage({ address, port }: BoundPort): string {
  return `egress cannot listen: another program uses ${address}:${port}; find it with \`ss -lntup sport = :${port}\` and end it`;
}
