import { Agent, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import type { EgressPolicy } from '../policy/egress-policy.ts';
import type { Connector, Target } from './connector.ts';

/** Servers that close idle connections do so after 5 s at the earliest, as a rule. */
const IDLE_MS = 4000;
const MAX_IDLE_CONNECTIONS = 32;

/** What a request is made with; the target goes along as it was decided, so that nothing is parsed again. */
export interface UpstreamRequest extends ClientRequestArgs {
  target: Target;
}

/** The connections of one sandbox to servers, made by the connector alone and kept for a moment after each request. */
export class UpstreamAgent extends Agent {
  readonly #connector: Connector;
  readonly #sandbox: { policy: EgressPolicy; signal: AbortSignal };

  constructor(connector: Connector, sandbox: { policy: EgressPolicy; signal: AbortSignal }) {
    super({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS, timeout: IDLE_MS, scheduling: 'lifo' });
    this.#connector = connector;
    this.#sandbox = sandbox;
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    const { target } = options as UpstreamRequest;
    const { policy, signal } = this.#sandbox;
    this.#connector.connect(target, policy, signal).then(
      (socket) => callback?.(null, socket),
      // Node's own agent, too, gives no stream along with an error; its types do not say so.
      (error: Error) => callback?.(error, undefined as unknown as Duplex),
    );
  }

  override getName(options?: ClientRequestArgs): string {
    const { isSecure, host, port } = (options as UpstreamRequest).target;
    return `${isSecure ? 'https' : 'http'}:${host.kind}:${host.kind === 'name' ? host.name : host.address}:${port}`;
  }
}
