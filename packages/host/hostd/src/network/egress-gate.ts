import { BackOff, Deadline, KeyedQueue, onAbort, orAbort } from '@cloche/node-support';
import { EGRESS_PROTOCOL_VERSION, type GatedSandbox, type LaunchSpec } from '@cloche/protocol';
import type { Logger } from 'pino';
import { HostdError } from '../base/hostd-error.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { type EgressClient, EgressRefusedError } from './egress-client.ts';

/** Time that a launch waits for an egress that is restarting. */
const PATIENCE_MS = 5000;
const PAUSES = { firstMs: 25, longestMs: 1000 };

/** A sandbox whose network is handled by egress, with the source address of its traffic. */
export interface GatedInstance extends GatedSandbox {
  address: string;
}

/** Returns the policy that egress is to enforce for a sandbox; undefined when egress does not handle its network. */
export function gatedPolicy({ mode, hosts }: LaunchSpec['network']): GatedSandbox['policy'] | undefined {
  if (mode !== 'allowlist' && mode !== 'denylist') return undefined;
  return { mode, ...(hosts && { hosts }) };
}

export interface EgressGateOptions {
  client: EgressClient;
  /** Stores the authority that gated sandboxes are to trust; throws when the certificate is not an authority's. */
  trust: (certificate: string) => void;
  log?: Logger;
}

/**
 * Registers gated sandboxes and their policies with egress. The registrations are kept here, because egress loses them
 * when it ends: a new egress receives all of them before anything else.
 */
export class EgressGate {
  readonly #client: EgressClient;
  readonly #trust: EgressGateOptions['trust'];
  readonly #log: Logger | undefined;
  readonly #registrations = new Map<InstanceKey, GatedInstance>();
  readonly #closing = new AbortController();
  /** Resolves when egress has all registrations; replaced when that egress ends. */
  #ready = Promise.withResolvers<void>();
  /** Aborts the connection to the current egress, so that the next one receives all registrations. */
  #connection = new AbortController();
  /** Whether egress has all registrations, and so receives each change. */
  #isSynchronized = false;
  /** Version of the egress that was last refused, which is logged once. */
  #refusedVersion: number | undefined;
  readonly #requests = new KeyedQueue<'egress'>();
  #served: Promise<void> = Promise.resolve();

  constructor({ client, trust, log }: EgressGateOptions) {
    this.#client = client;
    this.#trust = trust;
    this.#log = log;
  }

  /**
   * Starts connecting to egress.
   * @param living running instances that an earlier hostd launched
   */
  open(living: ReadonlyMap<InstanceKey, GatedInstance>): void {
    for (const [key, instance] of living) this.#registrations.set(key, instance);
    this.#served = this.#serve();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#connection.abort();
    await this.#served;
    this.#client.close();
  }

  /** Returns egress's own metrics; an empty string while it does not answer. */
  async metrics(): Promise<string> {
    if (!this.#isSynchronized) return '';
    return this.#client.metrics().catch(() => '');
  }

  /**
   * Resolves when egress answers and has all registrations.
   * @throws `network_mode_unsupported` when it does not in time.
   */
  async ready(signal: AbortSignal): Promise<void> {
    using limit = new Deadline(PATIENCE_MS, signal);
    try {
      await limit.race(this.#ready.promise);
    } catch {
      signal.throwIfAborted();
      throw new HostdError(
        'network_mode_unsupported',
        'the egress gateway does not respond, and only the gateway can enforce',
      );
    }
  }

  /** Resolves when egress answers and has all registrations, however long that takes, or when `signal` aborts. */
  async whenReady(signal: AbortSignal): Promise<void> {
    await orAbort(this.#ready.promise, signal).catch(() => undefined);
  }

  /** Resolves when the policy is in force. Throws when it is not, and then drops the registration. */
  async register(key: InstanceKey, instance: GatedInstance, signal: AbortSignal): Promise<void> {
    await this.ready(signal);
    const { address, ...sandbox } = instance;
    this.#registrations.set(key, instance);
    try {
      await this.#inOrder(() => this.#client.put(address, sandbox));
    } catch (cause) {
      this.#registrations.delete(key);
      throw new HostdError('launch_failed', 'the egress gateway refused the network policy', { cause });
    }
  }

  /**
   * Resolves when egress refuses everything from that address. Its previous instance is dead but may not be removed
   * yet. Idempotent. Throws when egress does not answer.
   */
  async clearAddress(address: string, signal: AbortSignal): Promise<void> {
    await this.ready(signal);
    const stale = [...this.#registrations].filter(([, instance]) => instance.address === address).map(([key]) => key);
    for (const key of stale) this.#registrations.delete(key);
    if (stale.length > 0) await this.#inOrder(() => this.#client.delete(address));
  }

  /**
   * Removes an instance's registration. Resolves when egress has ended its connections, or has ended itself: the next
   * egress does not receive the registration. Idempotent.
   */
  async unregister(key: InstanceKey): Promise<void> {
    const instance = this.#registrations.get(key);
    if (instance === undefined) return;
    this.#registrations.delete(key);
    await this.#inOrder(async () => {
      // The address may meanwhile belong to another instance, whose policy stays.
      const isReused = [...this.#registrations.values()].some(({ address }) => address === instance.address);
      if (!isReused && this.#isSynchronized) await this.#client.delete(instance.address);
    }).catch((err) => this.#log?.warn({ operation: 'unregister', instance: key, outcome: 'failed', err }));
  }

  /**
   * Runs requests one at a time, in order. After a failed request the state of egress is unknown, so everything is sent
   * again.
   */
  #inOrder<T>(act: () => Promise<T>): Promise<T> {
    return this.#requests.run('egress', async () => {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof EgressRefusedError)) this.#connection.abort();
        throw error;
      }
    });
  }

  async #serve(): Promise<void> {
    const signal = this.#closing.signal;
    const backOff = new BackOff(PAUSES);
    while (!signal.aborted) {
      try {
        await this.#synchronize();
        backOff.reset();
      } catch (err) {
        this.#log?.debug({ operation: 'reach egress', outcome: 'failed', err });
      }
      await backOff.pause(signal, { ref: false });
    }
  }

  /** Resolves when an egress that had all registrations ends; rejects when egress cannot be reached. */
  async #synchronize(): Promise<void> {
    this.#connection = new AbortController();
    if (this.#closing.signal.aborted) return;
    const cut = this.#connection;
    try {
      const gone = await this.#client.lifetime(cut.signal);
      const { protocolVersion, authorityCertificate } = await this.#client.health();
      this.#requireSameVersion(protocolVersion);
      this.#trust(authorityCertificate);
      await this.#inOrder(() => this.#sendAll());
      this.#log?.info({ operation: 'reach egress', outcome: 'synchronized', sandboxes: this.#registrations.size });
      await aborted(gone);
      this.#log?.warn({ operation: 'reach egress', outcome: 'gone' });
    } finally {
      cut.abort();
      // Callers that wait for the first connection keep waiting for it. Callers after a lost connection wait for the
      // next one.
      if (this.#isSynchronized) this.#ready = Promise.withResolvers();
      this.#isSynchronized = false;
    }
  }

  /** Treats an egress of another release as absent: that egress keeps its policies and will be restarted soon. */
  #requireSameVersion(version: number): void {
    const refused = version === EGRESS_PROTOCOL_VERSION ? undefined : version;
    if (refused !== undefined && refused !== this.#refusedVersion) {
      const versions = { egress: refused, hostd: EGRESS_PROTOCOL_VERSION };
      this.#log?.warn({ operation: 'reach egress', outcome: 'restart egress: it is of another release', versions });
    }
    this.#refusedVersion = refused;
    if (refused !== undefined) throw new Error(`egress speaks protocol ${refused}`);
  }

  async #sendAll(): Promise<void> {
    await this.#client.replaceAll({ sandboxes: [...this.#registrations.values()] });
    this.#isSynchronized = true;
    this.#ready.resolve();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => onAbort(signal, resolve));
}
