import { Agent, type ClientRequest, type ClientRequestArgs } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Target } from './connector.ts';

/** Time that an idle connection is kept. Servers usually close theirs after 5 s at the earliest. */
const IDLE_MS = 4000;
const MAX_IDLE_CONNECTIONS = 32;

/** Options of a request. They contain the target as it was decided, so that it is not parsed again. */
export interface UpstreamRequest extends ClientRequestArgs {
  target: Target;
}

/**
 * The connections of one sandbox to servers. The connector opens them; they are kept for a while after each request.
 */
export class UpstreamAgent extends Agent {
  readonly #connect: (target: Target) => Promise<Socket>;
  readonly #kept = new WeakSet<Duplex>();

  constructor(connect: (target: Target) => Promise<Socket>) {
    super({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS, timeout: IDLE_MS, scheduling: 'lifo' });
    this.#connect = connect;
  }

  /** Returns whether a connection is idle and kept for the next request. */
  isKept(socket: Duplex): boolean {
    return this.#kept.has(socket);
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const { target } = options as UpstreamRequest;
    this.#connect(target).then(
      (socket) => callback?.(null, socket),
      // Cast: Node's own agent passes no stream along with an error either, but the types require one.
      (error: Error) => callback?.(error, undefined as unknown as Duplex),
    );
  }

  override keepSocketAlive(socket: Duplex): boolean {
    // Node returns whether the socket is kept, although the declared return type is void.
    const isKept = super.keepSocketAlive(socket) as unknown as boolean;
    if (isKept) this.#kept.add(socket);
    return isKept;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    this.#kept.delete(socket);
    super.reuseSocket(socket, request);
  }

  override getName(options?: ClientRequestArgs): string {
    const { isSecure, host, port } = (options as UpstreamRequest).target;
    return `${isSecure ? 'https' : 'http'}:${host.kind}:${host.kind === 'name' ? host.name : host.address}:${port}`;
  }
}
