import { closeSync } from 'node:fs';
import { Deadline } from '@cloche/node-support';
import { EGRESS_PORTS } from '@cloche/protocol';
import { addressesOfSlot, gatedLinkName, linkName, probeTargetLinkName } from '../addressing/address-plan.ts';
import { hasRoute } from '../linux/netlink.ts';
import { createNetworkNamespace } from '../linux/network-namespace.ts';
import { DNS_PORT } from './gateway-slot.ts';
import { OUTSIDE_ADDRESS, type ProbeAddresses, type ProbedClass } from './probe-rules.ts';
import { type Endpoint, isAccepted, ProbeSocket } from './probe-sockets.ts';
import { connectSandbox, forward, removeLink } from './sandbox-link.ts';

/** Wait for a packet that may never arrive. On a busy machine egress may take a second to answer. */
const PATIENCE_MS = 2000;
/** Ports of the namespace that answers. */
const ECHO_PORTS = { open: 7, gated: 8 } as const;
/** Any port: what arrives is counted and dropped. */
const OUTSIDE: Endpoint = { address: OUTSIDE_ADDRESS, port: 9 };
const DNS_QUERIES = 53;
/** Ports of connections of each class: the one that they name, and the one to which the rules redirect them. */
const CONNECTIONS = { open: { to: DNS_QUERIES, at: DNS_PORT }, gated: { to: 443, at: EGRESS_PORTS.tcp } } as const;
/** A query without a question, which egress refuses by itself: the resolver of the host is not asked. */
const EMPTY_QUERY = Buffer.from([0xc1, 0x0c, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/** `unknown`: it was not measured, for example because egress does not run. */
export type Passage = 'passes' | 'blocked' | 'unknown';

/** The result of a measurement for one class of sandboxes: whether each kind of packets passes the host's firewalls. */
export interface ClassReachability {
  /** DNS queries to the gateway, and its answers. */
  resolver: Passage;
  /** Connections that end at the gateway: to its resolver, and all connections of gated sandboxes. */
  connections: Passage;
  /** Packets to the internet, up to the link where they would leave the host. */
  outgoing: Passage;
  /** Packets that answer them. */
  replies: Passage;
}

export interface Reachability extends Record<ProbedClass, ClassReachability> {
  hasRoute: boolean;
}

export interface ProbeDeps {
  installationId: string;
  gatewayAddress: string;
  mtu: number;
  slots: ProbeSlots;
  /** Returns how many packets of a class the trap of the rules has counted. */
  arrivals: (linkClass: ProbedClass) => number;
  /** Whether the links of the probe forward although the host does not forward yet. */
  forwards?: boolean;
}

/** Slots whose addresses no sandbox has: of a link of each class, and of the one that answers. */
export type ProbeSlots = Readonly<Record<ProbedClass | 'target', number>>;

export function probeAddresses({ open, gated, target }: ProbeSlots): ProbeAddresses {
  const [ofOpen, ofGated, ofTarget] = [open, gated, target].map((slot) => addressesOfSlot(slot).sandbox);
  return { open: ofOpen ?? '', gated: ofGated ?? '', target: ofTarget ?? '' };
}

/**
 * Measures whether the packets of sandboxes pass this host's firewalls. Sends them by a link that is made as a
 * sandbox's, from a network namespace that only this process holds: links and namespaces end with it.
 */
export class NetworkProbe {
  readonly #deps: ProbeDeps;

  constructor(deps: ProbeDeps) {
    this.#deps = deps;
  }

  /** Takes some milliseconds, and `PATIENCE_MS` where something is blocked. Do not call it twice at a time. */
  async measure(signal: AbortSignal): Promise<Reachability> {
    const routed = hasRoute(OUTSIDE_ADDRESS);
    const { mtu, installationId, slots, forwards } = this.#deps;
    using target = new ProbeNamespace(probeTargetLinkName(installationId));
    const prepare = (name: string) => forwards && forward(name, true);
    connectSandbox({ name: target.link, slot: slots.target, mtu, namespace: target.fd, prepare });
    const classes = (['open', 'gated'] as const).map((each) => this.#measureClass(each, target, routed, signal));
    // Both end before their links go.
    await Promise.allSettled(classes);
    const [open, gated] = await Promise.all(classes);
    if (!open || !gated) throw new Error('a network class was not measured');
    return { hasRoute: routed, open, gated };
  }

  async #measureClass(
    linkClass: ProbedClass,
    target: ProbeNamespace,
    routed: boolean,
    signal: AbortSignal,
  ): Promise<ClassReachability> {
    const { installationId, gatewayAddress, slots, mtu, forwards } = this.#deps;
    const nameOf = linkClass === 'gated' ? gatedLinkName : linkName;
    using sandbox = new ProbeNamespace(nameOf(installationId, slots[linkClass]));
    // The kernel forwards what arrives by the link of a sandbox whose datagrams flow.
    const prepare = (name: string) => (forwards || linkClass === 'gated') && forward(name, true);
    connectSandbox({ name: sandbox.link, slot: slots[linkClass], mtu, namespace: sandbox.fd, prepare });
    const arrivals = () => this.#deps.arrivals(linkClass);

    using limit = new Deadline(PATIENCE_MS, signal);
    const to = { address: probeAddresses(slots).target, port: ECHO_PORTS[linkClass] };
    using sockets = new DisposableStack();
    const open = async (namespace: ProbeNamespace, port?: number) =>
      sockets.use(await ProbeSocket.open(namespace.fd, port));
    const [asking, leaving, calling] = await Promise.all([open(sandbox), open(sandbox), open(sandbox)]);
    const echoing = (await open(target, to.port)).echo();
    const counted = arrivals();
    const [isResolved, isConnected, hasLeft, isReplied] = await Promise.all([
      asking.isAnswered(EMPTY_QUERY, { address: gatewayAddress, port: DNS_QUERIES }, limit.signal),
      isAccepted(sandbox.fd, { address: gatewayAddress, port: CONNECTIONS[linkClass].to }, limit.signal),
      routed && leaving.sendsUntil(() => arrivals() > counted, OUTSIDE, limit.signal),
      calling.isAnswered(Buffer.from('probe'), to, limit.signal),
    ]);
    signal.throwIfAborted();
    // If egress does not accept connections of this host itself, a missing answer says nothing about firewalls.
    const isThere = (isResolved && isConnected) || (await this.#isEgressThere(CONNECTIONS[linkClass].at, signal));
    return {
      resolver: passageOf(isResolved, isThere),
      connections: passageOf(isConnected, isThere),
      outgoing: passageOf(hasLeft, routed),
      // Whether the packet that is answered passed is told by `outgoing`, for the link that leads to the internet.
      replies: passageOf(isReplied, echoing.hasReceived),
    };
  }

  async #isEgressThere(port: number, signal: AbortSignal): Promise<boolean> {
    using limit = new Deadline(PATIENCE_MS, signal);
    return await isAccepted(undefined, { address: this.#deps.gatewayAddress, port }, limit.signal);
  }
}

function passageOf(hasPassed: boolean, isMeasured: boolean): Passage {
  if (hasPassed) return 'passes';
  return isMeasured ? 'blocked' : 'unknown';
}

/** A network namespace that only this process holds, and the host's end of the link that leads there. */
class ProbeNamespace implements Disposable {
  readonly fd = createNetworkNamespace();
  readonly link: string;

  constructor(link: string) {
    this.link = link;
  }

  [Symbol.dispose](): void {
    try {
      removeLink(this.link);
    } finally {
      closeSync(this.fd);
    }
  }
}
