import type { Socket } from 'node:net';
import type { GatedSandbox } from '@cloche/protocol';
import { breakOff } from '../break-off.ts';
import { type EgressPolicy, readPolicy } from '../policy/egress-policy.ts';
import type { Connector } from '../upstream/connector.ts';
import { UpstreamAgent } from '../upstream/upstream-agent.ts';
import { PacedStart } from './paced-start.ts';

const MAX_CONNECTIONS = 256;

/** One gated sandbox: its policy and all that is under way for it, which ends with it. */
export class SandboxTraffic {
  readonly sandboxId: string;
  readonly address: string;
  readonly policy: EgressPolicy;
  /** Connections to servers are kept for this sandbox' next requests, and never used by another one. */
  readonly agent: UpstreamAgent;
  readonly pace = new PacedStart();
  readonly #connections = new Set<Socket>();
  readonly #ended = new AbortController();

  /** Throws when the policy cannot be read. */
  constructor(address: string, { sandboxId, policy }: GatedSandbox, connector: Connector) {
    this.address = address;
    this.sandboxId = sandboxId;
    this.policy = readPolicy(policy);
    this.agent = new UpstreamAgent(connector, this);
  }

  /** Aborts when the sandbox is gone. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Counts a connection as the sandbox' until it closes. False when it has too many, or is gone. */
  adopt(socket: Socket): boolean {
    if (this.signal.aborted || this.#connections.size >= MAX_CONNECTIONS) return false;
    this.#connections.add(socket);
    socket.once('close', () => this.#connections.delete(socket));
    return true;
  }

  /** Idempotent. */
  end(): void {
    this.#ended.abort(new Error('the sandbox is gone'));
    for (const socket of this.#connections) breakOff(socket);
    this.agent.destroy();
  }
}
