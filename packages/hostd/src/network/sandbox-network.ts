import { execFile } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { OperatorRanges } from '@cloche/protocol';
import {
  addressesOfSlot,
  gatedLinkName,
  gatedLinkPrefix,
  gatewayLinkName,
  gatewayPeerName,
  linkName,
  linkPrefix,
  SANDBOX_PREFIX_LENGTH,
  SLOT_COUNT,
} from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, type Slots } from '../addressing/slots.ts';
import { errorCode } from '../kernel/libc.ts';
import { identifyProcess } from '../kernel/process-identity.ts';
import { DatagramGate } from './datagram-gate.ts';
import { admitThroughDocker, type LinkPrefixes, withdrawFromDocker } from './docker-user-chain.ts';
import { MAX_TRACKED_ENTRIES } from './flow-shares.ts';
import { acquireGatewaySlot, DNS_PORT } from './gateway-slot.ts';
import {
  addAddress,
  addDefaultRoute,
  createVeth,
  deleteLink,
  Netlink,
  type NetlinkRequest,
  raiseLink,
} from './netlink.ts';
import { guardTableName, nftGuardRuleset, nftRuleset, type RulesetOptions, tableName } from './nft-ruleset.ts';
import { OwnedRules } from './owned-rules.ts';
import { deleteFlows } from './tracked-flows.ts';
import { takeDatagramsApart } from './udp-segmentation.ts';

const execute = promisify(execFile);

const LOOPBACK_INDEX = 1;
const IP_FORWARD = '/proc/sys/net/ipv4/ip_forward';
const MAX_NEIGHBOURS = '/proc/sys/net/ipv4/neigh/default/gc_thresh3';
const MAX_TRACKED = '/proc/sys/net/netfilter/nf_conntrack_max';
/** Room for 128 sandboxes that each hold all they may, of some 400 bytes an entry. */
const TRACKED_ENTRIES = 128 * MAX_TRACKED_ENTRIES;

export interface SandboxNetworkOptions {
  installationId: string;
  ranges: OperatorRanges;
  slots: Slots;
  /** Addresses that are denied to the datagrams of each sandbox of an earlier hostd, by slot. */
  living: ReadonlyMap<number, readonly string[]>;
}

/** The network of all sandboxes of one installation: what they may reach is in force before the first exists. */
export class SandboxNetwork {
  readonly gatewayAddress: string;
  readonly #installationId: string;
  readonly #slots: Slots;
  readonly #gatewaySlot: number;
  readonly #ranges: OperatorRanges;
  readonly #mtu: number;
  readonly #guard = new OwnedRules();
  readonly #datagrams: DatagramGate;

  private constructor({ installationId, ranges, slots, living }: SandboxNetworkOptions, gatewaySlot: number) {
    this.#ranges = ranges;
    this.#installationId = installationId;
    this.#slots = slots;
    this.#gatewaySlot = gatewaySlot;
    this.gatewayAddress = addressesOfSlot(gatewaySlot).host;
    this.#mtu = uplinkMtu();
    const forDatagrams = {
      tables: [guardTableName(installationId, process.pid), tableName(installationId)],
      apply: (commands: string) => this.#guard.apply(commands),
      reinstall: () => nft(nftRuleset(this.#rules)),
    } as const;
    this.#datagrams = new DatagramGate(forDatagrams, living);
  }

  /** Makes the gateway address and the rules, or takes over those of an earlier hostd while its sandboxes live on. */
  static async open(options: SandboxNetworkOptions): Promise<SandboxNetwork> {
    const { slots } = options;
    const self = identifyProcess(process.pid);
    if (self === undefined) throw new Error('hostd cannot see itself in /proc');
    const slot = slots.find(GATEWAY_PURPOSE) ?? acquireGatewaySlot(slots, self);
    slots.transfer(slot, GATEWAY_PURPOSE, self);
    const network = new SandboxNetwork(options, slot);

    // SECURITY: what is refused stays so while somebody has flushed the rules (sandbox-network.runtime.test.ts).
    network.#guard.apply(nftGuardRuleset(network.#rules, process.pid));
    await network.#install();
    return network;
  }

  /**
   * Puts the rules back when something on the host has taken them away, as a reload of its firewall does. Returns
   * whether that was so.
   */
  async repair(): Promise<boolean> {
    const isThere = await execute('nft', ['-t', 'list', 'table', 'inet', tableName(this.#installationId)]).then(
      () => true,
      () => false,
    );
    if (!isThere) await this.#install();
    return !isThere;
  }

  get #rules(): RulesetOptions {
    return {
      installationId: this.#installationId,
      gatewayAddress: this.gatewayAddress,
      dnsPort: DNS_PORT,
      ranges: this.#ranges,
      datagramSandboxes: this.#datagrams.sandboxes(),
    };
  }

  get #links(): LinkPrefixes {
    return { open: linkPrefix(this.#installationId), gated: gatedLinkPrefix(this.#installationId) };
  }

  async #install(): Promise<void> {
    await nft(nftRuleset(this.#rules));
    await admitThroughDocker(this.#links);
    makeGateway(this.#installationId, this.#mtu, this.gatewayAddress);
    // Documented in docs/operations: what the host forwards beyond the sandboxes' traffic is its own firewall's matter.
    if (readFileSync(IP_FORWARD, 'utf8').trim() !== '1') writeFileSync(IP_FORWARD, '1');
    // Every sandbox is a neighbour: by default a host knows 1024, and then its own connections fail as well.
    raise(MAX_NEIGHBOURS, SLOT_COUNT);
    raise(MAX_TRACKED, TRACKED_ENTRIES);
  }

  /** Gives the sandbox whose first process is `pid` a link of its own to the host, which carries its traffic on. */
  connect(slot: number, pid: number): void {
    this.#connect(linkName(this.#installationId, slot), slot, pid);
  }

  /** Gives it a link that leads to egress alone. */
  connectToEgress(slot: number, pid: number): void {
    this.#connect(gatedLinkName(this.#installationId, slot), slot, pid, (name) => {
      // SECURITY: the kernel itself forwards nothing that comes by this link, even while somebody has flushed the rules
      // (gated-network.runtime.test.ts).
      forward(name, false);
    });
  }

  /**
   * Lets datagrams and ICMP echoes of a sandbox flow that is linked to egress, but not to `denied`. Its TCP and its look-ups
   * still end at egress.
   */
  async openToDatagrams(slot: number, pid: number, denied: readonly string[]): Promise<void> {
    // SECURITY: of a packet with several segments (UDP_SEGMENT) the rules see the first one alone, and a beginning of QUIC
    // could be in the second (e2e/security/network-policy.test.ts).
    const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      using inside = new Netlink(namespace);
      takeDatagramsApart(namespace, inside.linkIndex('eth0'));
    } finally {
      closeSync(namespace);
    }
    await this.#datagrams.open(slot, denied);
    // SECURITY: while the rules are flushed the guard holds for this link (gated-network.runtime.test.ts).
    forward(gatedLinkName(this.#installationId, slot), true);
  }

  #connect(name: string, slot: number, pid: number, prepare: (name: string) => void = () => {}): void {
    const { host, sandbox } = addressesOfSlot(slot);
    const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      using outside = new Netlink();
      const veth = createVeth({ name, mtu: this.#mtu, peer: { name: 'eth0', networkNamespaceFd: namespace } });
      if (!unlessCode('EEXIST', () => outside.apply(veth))) replaceLink(outside, name, veth);
      const ipv6Switch = `/proc/sys/net/ipv6/conf/${name}/disable_ipv6`;
      if (existsSync(ipv6Switch)) writeFileSync(ipv6Switch, '1');
      prepare(name);
      const link = outside.linkIndex(name);
      outside.apply(addAddress(link, host, SANDBOX_PREFIX_LENGTH), raiseLink(link));

      using inside = new Netlink(namespace);
      const eth0 = inside.linkIndex('eth0');
      inside.apply(
        raiseLink(LOOPBACK_INDEX),
        addAddress(eth0, sandbox, SANDBOX_PREFIX_LENGTH),
        raiseLink(eth0),
        addDefaultRoute(eth0, host),
      );
    } finally {
      closeSync(namespace);
    }
  }

  /** Gives the sandbox its own loopback and nothing else. */
  isolate(pid: number): void {
    const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      using inside = new Netlink(namespace);
      inside.apply(raiseLink(LOOPBACK_INDEX));
    } finally {
      closeSync(namespace);
    }
  }

  /**
   * Takes the link of a slot away, if it did not go with its sandbox, and then what the kernel still tracks of its
   * connections. Idempotent.
   */
  async disconnect(slot: number): Promise<void> {
    const names = [linkName, gatedLinkName].map((nameOf) => nameOf(this.#installationId, slot));
    const wasSilent = names.some(hasCarriedNothing);
    for (const name of names) removeLink(name);
    await this.#datagrams.close(slot);
    // SECURITY: what an old peer sends to a tracked flow would reach the next sandbox with this address
    // (e2e/security/connections.test.ts).
    if (!wasSilent) await deleteFlows(addressesOfSlot(slot).sandbox);
  }

  /** Takes everything off the host again. Only while no sandbox lives. */
  async close(): Promise<void> {
    removeLink(gatewayLinkName(this.#installationId));
    await withdrawFromDocker(this.#links);
    this.#slots.release(this.#gatewaySlot, GATEWAY_PURPOSE);
    await nft(`delete table inet ${tableName(this.#installationId)}\n`);
    this.#guard[Symbol.dispose]();
  }
}

function forward(link: string, isOn: boolean): void {
  writeFileSync(`/proc/sys/net/ipv4/conf/${link}/forwarding`, isOn ? '1' : '0');
}

function raise(file: string, atLeast: number): void {
  if (Number(readFileSync(file, 'utf8')) < atLeast) writeFileSync(file, String(atLeast));
}

/** False too where there is no such link any more. */
function hasCarriedNothing(link: string): boolean {
  try {
    return readFileSync(`/sys/class/net/${link}/statistics/rx_packets`, 'utf8').trim() === '0';
  } catch {
    return false;
  }
}

/** The address needs a link to be on. A pair that leads to itself asks for no driver that sandboxes do not need. */
function makeGateway(installationId: string, mtu: number, address: string): void {
  const name = gatewayLinkName(installationId);
  using host = new Netlink();
  if (!existsSync(`/sys/class/net/${name}`)) {
    host.apply(createVeth({ name, mtu, peer: { name: gatewayPeerName(installationId) } }));
  }
  const link = host.linkIndex(name);
  unlessCode('EEXIST', () => host.apply(addAddress(link, address, 32)));
  host.apply(raiseLink(link));
}

function removeLink(name: string): void {
  using host = new Netlink();
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
}

/** Whoever had the slot before is dead: the kernel only takes its link away a little after it. */
function replaceLink(host: Netlink, name: string, link: NetlinkRequest): void {
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
  host.apply(link);
}

/** False when `act` failed with that code. */
function unlessCode(code: string, act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (errorCode(error) !== code) throw error;
    return false;
  }
}

/** What the link of the default route carries: packets that are larger would be cut, or lost, on their way out. */
function uplinkMtu(): number {
  const STANDARD = 1500;
  const routes = readFileSync('/proc/net/route', 'utf8').split('\n').slice(1);
  const uplink = routes.map((line) => line.split('\t')).find(([, destination]) => destination === '00000000')?.[0];
  if (uplink === undefined) return STANDARD;
  return Math.min(STANDARD, Number(readFileSync(`/sys/class/net/${uplink}/mtu`, 'utf8')));
}

function nft(commands: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const child = execFile('nft', ['-f', '-'], (error, _stdout, stderr) => {
    if (error) reject(new Error(`nft refused the rules: ${stderr.trim()}`, { cause: error }));
    else resolve();
  });
  child.stdin?.end(commands);
  return promise;
}
