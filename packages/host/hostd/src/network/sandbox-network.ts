import { execFile } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { OperatorRanges } from '@cloche/settings';
import {
  addressesOfSlot,
  gatedLinkName,
  gatedLinkPrefix,
  gatewayLinkName,
  gatewayPeerName,
  linkName,
  linkPrefix,
} from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, PROBE_PURPOSES, type Slots } from '../addressing/slots.ts';
import { addAddress, createVeth, findLink, Netlink, raiseLink } from '../linux/netlink.ts';
import { identifyProcess, type ProcessIdentity } from '../linux/process-identity.ts';
import { DatagramGate } from './datagram-gate.ts';
import { addDockerUserRules, type LinkPrefixes, removeDockerUserRules } from './docker-user-chain.ts';
import { acquireGatewaySlot, DNS_PORT } from './gateway-slot.ts';
import { NetworkProbe, type ProbeSlots, probeAddresses } from './network-probe.ts';
import { guardTableName, nftGuardRuleset, nftRuleset, type RulesetOptions, tableName } from './nft-ruleset.ts';
import { OwnedRules } from './owned-rules.ts';
import { prepareKernel } from './prepare-kernel.ts';
import { countArrivals, type ProbedClass } from './probe-rules.ts';
import { connectSandbox, forward, raiseLoopback, removeLink, unlessCode } from './sandbox-link.ts';
import { deleteFlows } from './tracked-flows.ts';
import { disableUdpSegmentation } from './udp-segmentation.ts';

const execute = promisify(execFile);

export interface SandboxNetworkOptions {
  installationId: string;
  ranges: OperatorRanges;
  slots: Slots;
  /** Denied addresses of each running sandbox that an earlier hostd launched, by slot. */
  living: ReadonlyMap<number, readonly string[]>;
}

/** The network of all sandboxes of one installation. The rules are in force before the first sandbox exists. */
export class SandboxNetwork {
  readonly gatewayAddress: string;
  readonly probe: NetworkProbe;
  readonly #installationId: string;
  readonly #slots: Slots;
  readonly #gatewaySlot: number;
  readonly #probeSlots: ProbeSlots;
  readonly #ranges: OperatorRanges;
  readonly #mtu: number;
  readonly #guard = new OwnedRules();
  readonly #datagrams: DatagramGate;

  private constructor(
    { installationId, ranges, slots, living }: SandboxNetworkOptions,
    gatewaySlot: number,
    probeSlots: ProbeSlots,
  ) {
    this.#ranges = ranges;
    this.#installationId = installationId;
    this.#slots = slots;
    this.#gatewaySlot = gatewaySlot;
    this.#probeSlots = probeSlots;
    this.gatewayAddress = addressesOfSlot(gatewaySlot).host;
    this.#mtu = uplinkMtu();
    const forDatagrams = {
      tables: [guardTableName(installationId, process.pid), tableName(installationId)],
      apply: (commands: string) => this.#guard.apply(commands),
      reinstall: () => nft(nftRuleset(this.#rules)),
    } as const;
    this.#datagrams = new DatagramGate(forDatagrams, living);
    const { gatewayAddress } = this;
    const arrivals = (linkClass: ProbedClass) =>
      countArrivals(guardTableName(installationId, process.pid), linkClass, (command) => this.#guard.read(command));
    this.probe = new NetworkProbe({ installationId, gatewayAddress, mtu: this.#mtu, slots: probeSlots, arrivals });
  }

  /** Creates the gateway address and the rules, or takes over those of an earlier hostd whose sandboxes still run. */
  static async open(options: SandboxNetworkOptions): Promise<SandboxNetwork> {
    const { slots } = options;
    const self = identifyProcess(process.pid);
    if (self === undefined) throw new Error('hostd cannot see itself in /proc');
    const slot = slots.find(GATEWAY_PURPOSE) ?? acquireGatewaySlot(slots, self);
    slots.transfer(slot, GATEWAY_PURPOSE, self);
    const network = new SandboxNetwork(options, slot, acquireProbeSlots(slots, self));

    // SECURITY: refusals stay in force while another program has flushed the rules (sandbox-network.runtime.test.ts).
    network.#guard.apply(nftGuardRuleset(network.#rules, process.pid));
    await network.#install();
    return network;
  }

  /**
   * Restores the rules when another program removed them, as a reload of the host's firewall does. Returns whether they
   * were missing.
   */
  async repair(): Promise<boolean> {
    const isThere = await execute('nft', ['-t', 'list', 'table', 'inet', tableName(this.#installationId)]).then(
      () => true,
      () => false,
    );
    if (!isThere) await this.#install();
    return !isThere;
  }

  /** Lets sandboxes pass Docker's firewall if Docker has been started since. Returns whether rules were missing. */
  async passDocker(): Promise<boolean> {
    return addDockerUserRules(this.#links);
  }

  get #rules(): RulesetOptions {
    return {
      installationId: this.#installationId,
      gatewayAddress: this.gatewayAddress,
      dnsPort: DNS_PORT,
      ranges: this.#ranges,
      datagramSandboxes: this.#datagrams.sandboxes(),
      probe: probeAddresses(this.#probeSlots),
    };
  }

  get #links(): LinkPrefixes {
    return { open: linkPrefix(this.#installationId), gated: gatedLinkPrefix(this.#installationId) };
  }

  async #install(): Promise<void> {
    await nft(nftRuleset(this.#rules));
    await addDockerUserRules(this.#links);
    makeGateway(this.#installationId, this.#mtu, this.gatewayAddress);
    prepareKernel();
  }

  /** Gives the sandbox whose first process is `pid` a link to the host, which forwards its traffic. */
  connect(slot: number, pid: number): void {
    this.#connect(linkName(this.#installationId, slot), slot, pid);
  }

  /** Gives the sandbox a link that leads only to egress. */
  connectToEgress(slot: number, pid: number): void {
    this.#connect(gatedLinkName(this.#installationId, slot), slot, pid, (name) => {
      // SECURITY: the kernel forwards nothing that arrives by this link, even while another program has flushed the
      // rules (gated-network.runtime.test.ts).
      forward(name, false);
    });
  }

  /**
   * Lets datagrams and ICMP echoes of a gated sandbox flow, except to `denied`. Its TCP and look-ups still end at
   * egress.
   */
  async allowDatagrams(slot: number, pid: number, denied: readonly string[]): Promise<void> {
    // SECURITY: of a packet with several segments (UDP_SEGMENT) the rules see only the first, and the second could
    // begin a QUIC connection (e2e/security/network-policy.test.ts).
    withNamespaceOf(pid, (namespace) => {
      using inside = new Netlink(namespace);
      disableUdpSegmentation(namespace, inside.linkIndex('eth0'));
    });
    await this.#datagrams.open(slot, denied);
    // SECURITY: while the rules are flushed, the guard table protects this link (gated-network.runtime.test.ts).
    forward(gatedLinkName(this.#installationId, slot), true);
  }

  #connect(name: string, slot: number, pid: number, prepare: (name: string) => void = () => {}): void {
    withNamespaceOf(pid, (namespace) => connectSandbox({ name, slot, mtu: this.#mtu, namespace, prepare }));
  }

  /** Gives the sandbox only its own loopback. */
  isolate(pid: number): void {
    withNamespaceOf(pid, raiseLoopback);
  }

  /** Removes a slot's link, if it outlived its sandbox, and the kernel's tracked flows of its address. Idempotent. */
  async disconnect(slot: number): Promise<void> {
    const names = [linkName, gatedLinkName].map((nameOf) => nameOf(this.#installationId, slot));
    const wasSilent = names.some(hasNoTraffic);
    for (const name of names) removeLink(name);
    await this.#datagrams.close(slot);
    // SECURITY: packets that an old peer sends to a tracked flow would reach the next sandbox with this address
    // (e2e/security/connections.test.ts).
    if (!wasSilent) await deleteFlows(addressesOfSlot(slot).sandbox);
  }

  /** Removes gateway and rules from the host. Call only while no sandbox runs. */
  async close(): Promise<void> {
    removeLink(gatewayLinkName(this.#installationId));
    await removeDockerUserRules(this.#links);
    this.#slots.release(this.#gatewaySlot, GATEWAY_PURPOSE);
    for (const each of ['open', 'gated', 'target'] as const) {
      this.#slots.release(this.#probeSlots[each], PROBE_PURPOSES[each]);
    }
    await nft(`delete table inet ${tableName(this.#installationId)}\n`);
    this.#guard[Symbol.dispose]();
  }
}

/** Returns whether the link has received no packet; false where the link no longer exists. */
function hasNoTraffic(link: string): boolean {
  return findLink(link)?.receivedPackets === 0;
}

/**
 * Creates the gateway address on a link. A veth pair, even with an unused peer, needs no driver that sandboxes do not
 * need anyway.
 */
function makeGateway(installationId: string, mtu: number, address: string): void {
  const name = gatewayLinkName(installationId);
  using host = new Netlink();
  if (!findLink(name)) {
    host.apply(createVeth({ name, mtu, peer: { name: gatewayPeerName(installationId) } }));
  }
  const link = host.linkIndex(name);
  unlessCode('EEXIST', () => host.apply(addAddress(link, address, 32)));
  host.apply(raiseLink(link));
}

/** Acquires the slots of the probe, or takes over those of an earlier hostd, so that rules in force keep their addresses. */
function acquireProbeSlots(slots: Slots, self: ProcessIdentity): ProbeSlots {
  const acquire = (purpose: string) => {
    const slot = slots.find(purpose) ?? slots.acquire(purpose, self);
    slots.transfer(slot, purpose, self);
    return slot;
  };
  const { open, gated, target } = PROBE_PURPOSES;
  return { open: acquire(open), gated: acquire(gated), target: acquire(target) };
}

function withNamespaceOf(pid: number, act: (namespace: number) => void): void {
  const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
  try {
    act(namespace);
  } finally {
    closeSync(namespace);
  }
}

/** Returns the MTU of the default route's link, at most 1500: larger packets would be fragmented or lost. */
function uplinkMtu(): number {
  const STANDARD = 1500;
  const routes = readFileSync('/proc/net/route', 'utf8').split('\n').slice(1);
  const uplink = routes.map((line) => line.split('\t')).find(([, destination]) => destination === '00000000')?.[0];
  if (uplink === undefined) return STANDARD;
  return Math.min(STANDARD, findLink(uplink)?.mtu ?? STANDARD);
}

function nft(commands: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = execFile('nft', ['-f', '-'], (error, _stdout, stderr) => {
    if (error) reject(new Error(`nft refused the rules: ${stderr.trim()}`, { cause: error }));
    else resolve();
  });
  // A program that ends before it has read everything is judged by its exit code.
  child.stdin?.on('error', () => undefined).end(commands);
  return promise;
}
