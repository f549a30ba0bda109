import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { createServer } from 'node:net';
import { EGRESS_PORTS, type HostWarning } from '@cloche/protocol';
import { addressesOfSlot, gatewayLinkName } from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, PROBE_PURPOSES, Slots } from '../addressing/slots.ts';
import { addAddress, createVeth, Netlink, raiseLink } from '../linux/netlink.ts';
import { createNetworkNamespace } from '../linux/network-namespace.ts';
import { identifyProcess } from '../linux/process-identity.ts';
import { listFirewallChains } from './firewall-chains.ts';
import { acquireGatewaySlot, DNS_PORT } from './gateway-slot.ts';
import { NetworkProbe, probeAddresses } from './network-probe.ts';
import { networkWarnings } from './network-warnings.ts';
import { guardTableName, nftPassingRuleset } from './nft-ruleset.ts';
import { OwnedRules } from './owned-rules.ts';
import { countArrivals, type ProbedClass } from './probe-rules.ts';
import { removeLink } from './sandbox-link.ts';

const ID_LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 8;
const MTU = 1500;

/**
 * Measures what keeps sandboxes from the network on a host where hostd does not run. Links, rules and addresses are as
 * hostd makes them, for an installation that exists only meanwhile; programs of this process answer in place of egress.
 * Changes no setting of the host, and leaves nothing behind, even if this process is killed: all ends with it.
 *
 * @param slotsDir folder of slots that all installations of the host share
 */
export async function measureWithoutHostd(slotsDir: string, signal: AbortSignal): Promise<HostWarning[]> {
  const installationId = Array.from({ length: ID_LENGTH }, () => ID_LETTERS[randomInt(ID_LETTERS.length)]).join('');
  const self = identifyProcess(process.pid);
  if (self === undefined) throw new Error('this process cannot see itself in /proc');
  await using ends = new AsyncDisposableStack();
  const slots = new Slots(slotsDir, installationId);
  const acquire = (purpose: string) => {
    const slot = purpose === GATEWAY_PURPOSE ? acquireGatewaySlot(slots, self) : slots.acquire(purpose, self);
    return ends.adopt(slot, () => slots.release(slot, purpose));
  };
  const gatewayAddress = addressesOfSlot(acquire(GATEWAY_PURPOSE)).host;
  const { open, gated, target } = PROBE_PURPOSES;
  const probeSlots = { open: acquire(open), gated: acquire(gated), target: acquire(target) };
  makeGateway(gatewayLinkName(installationId), gatewayAddress, ends);
  const rules = ends.use(new OwnedRules());
  const ranges = { allowCidrs: [], denyCidrs: [] };
  const probe = probeAddresses(probeSlots);
  const options = { installationId, gatewayAddress, dnsPort: DNS_PORT, ranges, datagramSandboxes: [], probe };
  rules.apply(nftPassingRuleset(options, process.pid));
  await answerAsEgress(gatewayAddress, ends);

  const table = guardTableName(installationId, process.pid);
  const arrivals = (linkClass: ProbedClass) => countArrivals(table, linkClass, (command) => rules.read(command));
  const deps = { installationId, gatewayAddress, mtu: MTU, slots: probeSlots, arrivals, forwards: true };
  const reachability = await new NetworkProbe(deps).measure(signal);
  const chains = await listFirewallChains();
  // hostd adds rules to this chain when it starts.
  const isDocker = chains.some(({ name }) => name === 'DOCKER-USER');
  const warnings = networkWarnings({ reachability, forwards: true, chains });
  return warnings.filter(({ remedy }) => !(isDocker && remedy.includes('DOCKER-USER')));
}

/** Creates the gateway's address on a link whose other end is in a namespace that only this process holds. */
function makeGateway(name: string, address: string, ends: AsyncDisposableStack): void {
  const namespace = ends.adopt(createNetworkNamespace(), closeSync);
  using host = new Netlink();
  host.apply(createVeth({ name, mtu: MTU, peer: { name, networkNamespaceFd: namespace } }));
  ends.defer(() => removeLink(name));
  const link = host.linkIndex(name);
  host.apply(addAddress(link, address, 32), raiseLink(link));
}

/** Accepts connections and answers datagrams at the ports of egress. */
async function answerAsEgress(address: string, ends: AsyncDisposableStack): Promise<void> {
  for (const port of [DNS_PORT, EGRESS_PORTS.dns]) {
    const datagrams = createSocket('udp4').on('error', () => undefined);
    ends.defer(() => {
      datagrams.close();
    });
    datagrams.on('message', (message, from) => datagrams.send(message, from.port, from.address, () => undefined));
    const listening = once(datagrams, 'listening');
    datagrams.bind(port, address);
    await listening;
  }
  for (const port of [DNS_PORT, EGRESS_PORTS.tcp]) {
    const server = createServer((socket) => socket.on('error', () => undefined).resetAndDestroy());
    ends.defer(() => {
      server.close();
    });
    const listening = once(server, 'listening');
    server.listen(port, address);
    await listening;
  }
}
