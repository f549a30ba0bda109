import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GatedSandbox } from '@cloche/protocol';
import { breakOff } from '../break-off.ts';
import { type EgressPolicy, readPolicy } from '../policy/egress-policy.ts';
import type { EgressShares } from '../shares/egress-shares.ts';
import { Pace } from '../shares/pace.ts';
import { TurnBudget } from '../shares/turn-budget.ts';
import { boundBuffers } from '../socket-options.ts';
import type { Connector, Target } from '../upstream/connector.ts';
import { EgressError } from '../upstream/egress-error.ts';
import { UpstreamAgent } from '../upstream/upstream-agent.ts';

/**
 * The largest number of requests that a sandbox has under way on all its HTTP/1.1 and HTTP/2 connections. Each
 * WebSocket and each raw connection counts as one.
 */
const MAX_REQUESTS = 256;
/** With those that wait, which hold a head and a window of a body each; further streams are refused, to be asked again. */
const MAX_ASKED = 512;
/** Few enough that requests of others come in between soon, and enough to keep both ends busy. */
const BEGUN_IN_A_TURN = 4;
/** Each takes a microsecond or two. */
const PIECES_IN_A_TURN = 1000;
/** Connections to servers whose buffers the kernel may let grow, to 6 and 4 MB as a rule, for servers that are far away. */
const LARGE_BUFFERS = 8;
/** Bytes of the kernel's socket buffers of every other connection to a server. */
const SERVER_BUFFERS = { receiveBytes: 128 * 1024, sendBytes: 128 * 1024 };
/** Each may hold its own memory for streams; a client beyond them is offered HTTP/1.1. */
const MAX_HTTP2_SESSIONS = 32;

/** One gated sandbox: its policy and all that is under way for it, which ends with it. */
export class SandboxTraffic {
  readonly sandboxId: string;
  readonly address: string;
  readonly policy: EgressPolicy;
  /** Connections to servers are kept for this sandbox' next requests, and never used by another one. */
  readonly agent: UpstreamAgent;
  /** First bytes and TLS of a connection cost as much of the event loop as a request. */
  readonly admissions = new Pace({ atOnce: MAX_REQUESTS, inATurn: BEGUN_IN_A_TURN });
  /** Certificates are signed one after the other. */
  readonly signatures = new Pace({ atOnce: 1, inATurn: 1 });
  /**
   * Budget for pieces of bodies in both directions. Connections, streams and header fields are charged to it as well.
   */
  readonly pieces = new TurnBudget(PIECES_IN_A_TURN);
  readonly #requests = new Pace({ atOnce: MAX_REQUESTS, inATurn: BEGUN_IN_A_TURN });
  readonly #shares: EgressShares;
  readonly #connector: Connector;
  /** With how many requests of each are under way. */
  readonly #connections = new Map<Socket, number>();
  readonly #http2 = new Set<Duplex>();
  #largeBuffers = 0;
  readonly #ended = new AbortController();

  /** Throws when the policy cannot be read. */
  constructor(address: string, { sandboxId, policy }: GatedSandbox, connector: Connector, shares: EgressShares) {
    this.address = address;
    this.sandboxId = sandboxId;
    this.policy = readPolicy(policy);
    this.#shares = shares;
    this.#connector = connector;
    this.agent = new UpstreamAgent((target) => this.connect(target));
  }

  /** Aborts when the sandbox is gone. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Whether one more request may wait for others to end. */
  get mayWait(): boolean {
    return this.#requests.underWay + this.#requests.waiting < MAX_ASKED;
  }

  /** Counts a connection as the sandbox' until it closes. False when it has too many, or is gone. */
  adopt(socket: Socket): boolean {
    if (this.signal.aborted) return false;
    const isIdle = () => this.#connections.get(socket) === 0;
    const place = this.#shares.connections.tryEnter(this.address, {
      evict: () => breakOff(socket),
      get isIdle() {
        return isIdle();
      },
    });
    if (!place) return false;
    this.#connections.set(socket, 0);
    socket.once('close', () => {
      this.#connections.delete(socket);
      place[Symbol.dispose]();
    });
    return true;
  }

  /**
   * Resolves when a request that came on that connection may begin, with what is disposed of at its end; undefined when
   * `client`, its stream or the connection itself, closed before.
   */
  async begin(connection: Socket, client: Duplex): Promise<Disposable | undefined> {
    const place = await this.#requests.begin(client);
    if (!place) return undefined;
    this.#count(connection, 1);
    return {
      [Symbol.dispose]: () => {
        this.#count(connection, -1);
        place[Symbol.dispose]();
      },
    };
  }

  /** Whether a connection may be one of HTTP/2, which counts until it closes. */
  adoptHttp2(socket: Duplex): boolean {
    if (this.#http2.size >= MAX_HTTP2_SESSIONS) return false;
    this.#http2.add(socket);
    socket.once('close', () => this.#http2.delete(socket));
    return true;
  }

  /** Opens a connection to a server, which counts from now until it closes. Rejects with an `EgressError`. */
  async connect(target: Target): Promise<Socket> {
    const evicted = new AbortController();
    let socket: Socket | undefined;
    const isIdle = () => socket !== undefined && this.agent.isKept(socket);
    const place = this.#shares.serverConnections.tryEnter(this.address, {
      evict: () => (socket ? socket.destroy() : evicted.abort()),
      get isIdle() {
        return isIdle();
      },
    });
    if (!place) throw new EgressError('busy', 'the sandbox has too many connections to servers');
    try {
      socket = await this.#connector.connect(target, this.policy, AbortSignal.any([this.signal, evicted.signal]));
    } catch (error) {
      place[Symbol.dispose]();
      throw error;
    }
    socket.once('close', () => place[Symbol.dispose]());
    if (this.#largeBuffers >= LARGE_BUFFERS) boundBuffers(socket, SERVER_BUFFERS);
    else {
      this.#largeBuffers += 1;
      socket.once('close', () => void this.#largeBuffers--);
    }
    return socket;
  }

  /** Idempotent. */
  end(): void {
    this.#ended.abort(new Error('the sandbox is gone'));
    for (const socket of this.#connections.keys()) breakOff(socket);
    this.agent.destroy();
  }

  #count(connection: Socket, change: 1 | -1): void {
    const underWay = this.#connections.get(connection);
    if (underWay !== undefined) this.#connections.set(connection, underWay + change);
  }
}
