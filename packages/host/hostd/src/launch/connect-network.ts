import { addressesOfSlot } from '../addressing/address-plan.ts';
import type { UndoStack } from '../base/undo-stack.ts';
import { deniedDatagramAddresses } from '../network/datagram-gate.ts';
import { type EgressGate, gatedPolicy } from '../network/egress-gate.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { LaunchPlan } from './launch-plan.ts';

interface Networks {
  network: SandboxNetwork;
  egress: EgressGate;
}

/** Gives a sandbox's first process the network of its plan. */
export async function connectNetwork(
  { network, egress }: Networks,
  plan: LaunchPlan,
  { slot, pid }: { slot: number; pid: number },
  undo: UndoStack,
  signal: AbortSignal,
): Promise<void> {
  // SECURITY: no file of a client reaches a network before a sandbox pays for it (pool.runtime.test.ts).
  if (plan.isUnlinked) return network.isolate(pid);
  undo.push('link', () => network.disconnect(slot));
  switch (plan.network) {
    case 'none':
      return network.isolate(pid);
    case 'open':
      return network.connect(slot, pid);
    case 'gated': {
      undo.push('network policy', () => egress.unregister(plan.key));
      // The policy is in force before the link exists, so no traffic passes without it.
      await enforcePolicy(egress, plan, slot, signal);
      network.connectToEgress(slot, pid);
      const denied = plan.sandbox && deniedDatagramAddresses(plan.sandbox.network);
      if (denied) await network.allowDatagrams(slot, pid, denied);
      return;
    }
  }
}

/** Has egress enforce the sandbox's policy. Egress refuses everything from an address without a policy. */
async function enforcePolicy(
  egress: EgressGate,
  { key, sandbox }: LaunchPlan,
  slot: number,
  signal: AbortSignal,
): Promise<void> {
  const { sandbox: address } = addressesOfSlot(slot);
  const policy = sandbox && gatedPolicy(sandbox.network);
  if (policy) await egress.register(key, { sandboxId: sandbox.sandboxId, policy, address }, signal);
  else await egress.clearAddress(address, signal);
}
