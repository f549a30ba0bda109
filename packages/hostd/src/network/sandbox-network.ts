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
} from '../addressing/address-plan.ts';
import { GATEWAY_PURPOSE, type Slots } from '../addressing/slots.ts';
import { errorCode } from '../kernel/libc.ts';
import {
  addAddress,
  addDefaultRoute,
  createVeth,
  deleteLink,
  findLink,
  Netlink,
  type NetlinkRequest,
  raiseLink,
} from '../kernel/netlink.ts';
import { identifyProcess } from '../kernel/process-identity.ts';
import { DatagramGate } from './datagram-gate.ts';
import { addDockerUserRules, type LinkPrefixes, removeDockerUserRules } from './docker-user-chain.ts';
import { acquireGatewaySlot, DNS_PORT } from './gateway-slot.ts';
import { guardTableName, nftGuardRuleset, nftRuleset, type RulesetOptions, tableName } from './nft-ruleset.ts';
import { OwnedRules } from './owned-rules.ts';
import { prepareKernel } from './prepare-kernel.ts';
import { deleteFlows } from './tracked-flows.ts';
import { disableUdpSegmentation } from './udp-segmentation.ts';

const execute = promisify(execFile);

const LOOPBACK_INDEX = 1;

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

  /** Creates the gateway address and the rules, or takes over those of an earlier hostd whose sandboxes still run. */
  static async open(options: SandboxNetworkOptions): Promise<SandboxNetwork> {
    const { slots } = options;
    const self = identifyProcess(process.pid);
    if (self === undefined) throw new Error('hostd cannot see itself in /proc');
    const slot = slots.find(GATEWAY_PURPOSE) ?? acquireGatewaySlot(slots, self);
    slots.transfer(slot, GATEWAY_PURPOSE, self);
    const network = new SandboxNetwork(options, slot);

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
    const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      using inside = new Netlink(namespace);
      disableUdpSegmentation(namespace, inside.linkIndex('eth0'));
    } finally {
      closeSync(namespace);
    }
    await this.#datagrams.open(slot, denied);
    // SECURITY: while the rules are flushed, the guard table protects this link (gated-network.runtime.test.ts).
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

  /** Gives the sandbox only its own loopback. */
  isolate(pid: number): void {
    const namespace = openSync(`/proc/${pid}/ns/net`, 'r');
    try {
      using inside = new Netlink(namespace);
      inside.apply(raiseLink(LOOPBACK_INDEX));
    } finally {
      closeSync(namespace);
    }
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
    await nft(`delete table inet ${tableName(this.#installationId)}\n`);
    this.#guard[Symbol.dispose]();
  }
}

function forward(link: string, isOn: boolean): void {
  writeFileSync(`/proc/sys/net/ipv4/conf/${link}/forwarding`, isOn ? '1' : '0');
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

function removeLink(name: string): void {
  using host = new Netlink();
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
}

/** Recreates a link whose previous sandbox is dead: the kernel removes links shortly after. */
function replaceLink(host: Netlink, name: string, link: NetlinkRequest): void {
  unlessCode('ENODEV', () => host.apply(deleteLink(name)));
  host.apply(link);
}

/** Returns false when `act` failed with that code. */
function unlessCode(code: string, act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (errorCode(error) !== code) throw error;
    return false;
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
