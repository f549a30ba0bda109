import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TurnBudget } from '@cloche/node-support';
import type { GatedSandbox } from '@cloche/protocol';
import { type EgressPolicy, readPolicy } from '../policy/egress-policy.ts';
import { resetConnection } from '../reset-connection.ts';
import { SandboxSecrets } from '../secrets/sandbox-secrets.ts';
import type { SecretSource } from '../secrets/secret-source.ts';
import type { EgressShares } from '../shares/egress-shares.ts';
import { PacedQueue } from '../shares/paced-queue.ts';
import { boundBuffers } from '../socket-options.ts';
import type { Connector, Target } from '../upstream/connector.ts';
import { EgressError } from '../upstream/egress-error.ts';
import { UpstreamAgent } from '../upstream/upstream-agent.ts';

/**
 * Most concurrent requests of a sandbox, over all its HTTP/1.1 and HTTP/2 connections. Each WebSocket and each raw
 * connection counts as one.
 */
const MAX_REQUESTS = 256;
/**
 * Most running and waiting requests, because each waiting one holds a header and a window of its body. Further HTTP/2
 * streams are refused in a way that clients retry.
 */
const MAX_PENDING_REQUESTS = 512;
/** Requests that begin in one turn of the event loop: few enough for fairness, enough to keep both ends busy. */
const STARTS_PER_TURN = 4;
/** Pieces handled in one turn of the event loop. Each takes a microsecond or two. */
const PIECES_PER_TURN = 1000;
/** Connections to servers whose kernel buffers may grow (usually to 6 and 4 MB), for the sake of distant servers. */
const LARGE_BUFFERS = 8;
/** Bytes of the kernel's socket buffers of every other connection to a server. */
const SERVER_BUFFERS = { receiveBytes: 128 * 1024, sendBytes: 128 * 1024 };
/** Most HTTP/2 sessions, because each can hold memory for streams. Further connections are offered HTTP/1.1. */
const MAX_HTTP2_SESSIONS = 32;

export interface TrafficDeps {
  readonly connector: Connector;
  readonly shares: EgressShares;
  readonly secretSource: SecretSource;
}

/** The policy of one gated sandbox, and all its connections and requests. They end together with it. */
export class SandboxTraffic {
  readonly sandboxId: string;
  readonly address: string;
  readonly policy: EgressPolicy;
  readonly secrets: SandboxSecrets;
  /** Keeps connections to servers for later requests of this sandbox. Other sandboxes never use them. */
  readonly agent: UpstreamAgent;
  /** Paces new connections: detecting the protocol and TLS cost as much of the event loop as a request. */
  readonly admissions = new PacedQueue({ concurrency: MAX_REQUESTS, startsPerTurn: STARTS_PER_TURN });
  /** Paces certificates: they are signed one after the other. */
  readonly signatures = new PacedQueue({ concurrency: 1, startsPerTurn: 1 });
  /**
   * Budget for pieces of bodies in both directions. Connections, streams and header fields are charged to it as well.
   */
  readonly pieces = new TurnBudget(PIECES_PER_TURN);
  readonly #requests = new PacedQueue({ concurrency: MAX_REQUESTS, startsPerTurn: STARTS_PER_TURN });
  readonly #shares: EgressShares;
  readonly #connector: Connector;
  /** Open connections, each with its number of running requests. */
  readonly #connections = new Map<Socket, number>();
  readonly #http2 = new Set<Duplex>();
  #largeBuffers = 0;
  readonly #ended = new AbortController();

  /** Throws if the policy is invalid. */
  constructor(address: string, { sandboxId, policy }: GatedSandbox, { connector, shares, secretSource }: TrafficDeps) {
    this.address = address;
    this.sandboxId = sandboxId;
    this.policy = readPolicy(policy);
    this.secrets = new SandboxSecrets(sandboxId, secretSource, this.signal);
    this.#shares = shares;
    this.#connector = connector;
    this.agent = new UpstreamAgent((target) => this.connect(target));
  }

  /** Aborts when the sandbox has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Whether one more request may wait for others to end. */
  get mayWait(): boolean {
    return this.#requests.running + this.#requests.waiting < MAX_PENDING_REQUESTS;
  }

  /** Counts a connection towards the sandbox until it closes. Returns false if it has too many, or has ended. */
  adopt(socket: Socket): boolean {
    if (this.signal.aborted) return false;
    const isIdle = () => this.#connections.get(socket) === 0;
    const place = this.#shares.connections.tryEnter(this.address, {
      evict: () => resetConnection(socket),
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
   * Resolves when a request on that connection may begin. Dispose of the result at the end of the request. Resolves
   * with undefined if `client`, the stream or the connection itself, closes before.
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

  /** Counts an HTTP/2 session until it closes. Returns false if the sandbox has too many. */
  adoptHttp2(socket: Duplex): boolean {
    if (this.#http2.size >= MAX_HTTP2_SESSIONS) return false;
    this.#http2.add(socket);
    socket.once('close', () => this.#http2.delete(socket));
    return true;
  }

  /** Opens a connection to a server, which counts until it closes. Rejects with an `EgressError`. */
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
      socket.once('close', () => {
        this.#largeBuffers -= 1;
      });
    }
    return socket;
  }

  /** Ends all connections of the sandbox. Idempotent. */
  end(): void {
    this.#ended.abort(new Error('the sandbox is gone'));
    for (const socket of this.#connections.keys()) resetConnection(socket);
    this.agent.destroy();
  }

  #count(connection: Socket, change: 1 | -1): void {
    const underWay = this.#connections.get(connection);
    if (underWay !== undefined) this.#connections.set(connection, underWay + change);
  }
}
