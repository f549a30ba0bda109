import { setTimeout as delay } from 'node:timers/promises';
import { type GatedSandbox, type LaunchSpec, PROTOCOL_VERSION } from '@cloche/protocol';
import type { Logger } from 'pino';
import { HostdError } from '../base/hostd-error.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { type EgressClient, EgressRefusal } from './egress-client.ts';

/** For an egress that is just starting again, as seen by a launch. */
const PATIENCE_MS = 5000;
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 1000;

/** One sandbox that has its network by egress, at the address that its traffic comes from. */
export interface GatedInstance extends GatedSandbox {
  address: string;
}

/** What egress is to enforce for a sandbox, or undefined when its network is no matter of egress. */
export function gatedPolicy({ mode, hosts }: LaunchSpec['network']): GatedSandbox['policy'] | undefined {
  if (mode !== 'allowlist' && mode !== 'denylist') return undefined;
  return { mode, ...(hosts && { hosts }) };
}

export interface EgressGateOptions {
  client: EgressClient;
  /** Told of the authority that gated sandboxes are to trust; throws when it is none. */
  trust: (certificate: string) => void;
  log?: Logger;
}

/**
 * Keeps egress told of the sandboxes that it stands before. What is to be told is kept here, since egress forgets it:
 * whichever egress answers next is told the whole of it first.
 */
export class EgressGate {
  readonly #client: EgressClient;
  readonly #trust: EgressGateOptions['trust'];
  readonly #log: Logger | undefined;
  readonly #wanted = new Map<InstanceKey, GatedInstance>();
  readonly #closing = new AbortController();
  /** Resolves when egress knows all that is wanted; replaced when that egress is gone. */
  #ready = Promise.withResolvers<void>();
  /** Cuts the conversation with the egress of the moment off, so that the next one is told everything. */
  #conversation = new AbortController();
  /** Whether egress was told everything, and so is to be told of every change. */
  #isTold = false;
  readonly #requests = new KeyedQueue<'egress'>();
  #served: Promise<void> = Promise.resolve();

  constructor({ client, trust, log }: EgressGateOptions) {
    this.#client = client;
    this.#trust = trust;
    this.#log = log;
  }

  /** Begins to look for egress. @param living those of an earlier hostd that live on. */
  open(living: ReadonlyMap<InstanceKey, GatedInstance>): void {
    for (const [key, instance] of living) this.#wanted.set(key, instance);
    this.#served = this.#serve();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#conversation.abort();
    await this.#served;
    this.#client.close();
  }

  /** What egress counts, as it says it; empty while it does not answer. */
  async metrics(): Promise<string> {
    if (!this.#isTold) return '';
    return this.#client.metrics().catch(() => '');
  }

  /** Resolves when egress answers and is told everything. @throws `network_mode_unsupported` when it does not in time. */
  async ready(signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
    const gaveUp = Promise.withResolvers<never>();
    const giveUp = () => gaveUp.reject(limit.reason);
    limit.addEventListener('abort', giveUp, { once: true });
    try {
      limit.throwIfAborted();
      await Promise.race([this.#ready.promise, gaveUp.promise]);
    } catch {
      signal.throwIfAborted();
      throw new HostdError(
        'network_mode_unsupported',
        'the egress gateway does not respond, and only the gateway can enforce',
      );
    } finally {
      limit.removeEventListener('abort', giveUp);
    }
  }

  /** Resolves when the policy is in force. Throws when it is not, and then egress is not told of it again. */
  async register(key: InstanceKey, instance: GatedInstance, signal: AbortSignal): Promise<void> {
    await this.ready(signal);
    const { address, ...sandbox } = instance;
    this.#wanted.set(key, instance);
    try {
      await this.#inLine(() => this.#client.put(address, sandbox));
    } catch (cause) {
      this.#wanted.delete(key);
      throw new HostdError('launch_failed', 'the egress gateway refused the network policy', { cause });
    }
  }

  /**
   * Resolves when egress refuses everything from that address: whoever had it before is dead, and perhaps not removed
   * yet. Idempotent. Throws when egress does not answer.
   */
  async vacate(address: string, signal: AbortSignal): Promise<void> {
    await this.ready(signal);
    const stale = [...this.#wanted].filter(([, instance]) => instance.address === address).map(([key]) => key);
    for (const key of stale) this.#wanted.delete(key);
    if (stale.length > 0) await this.#inLine(() => this.#client.delete(address));
  }

  /** Idempotent. Resolves when egress has ended all of it, or is gone: the next one never hears of it. */
  async unregister(key: InstanceKey): Promise<void> {
    const instance = this.#wanted.get(key);
    if (instance === undefined) return;
    this.#wanted.delete(key);
    await this.#inLine(async () => {
      // Meanwhile the address may be another's, whose policy stays.
      const isReused = [...this.#wanted.values()].some(({ address }) => address === instance.address);
      if (!isReused && this.#isTold) await this.#client.delete(instance.address);
    }).catch((err) => this.#log?.warn({ operation: 'unregister', instance: key, outcome: 'failed', err }));
  }

  /** One thing at a time, in order. Once egress has not done as told, what it knows is uncertain: it is told anew. */
  #inLine<T>(act: () => Promise<T>): Promise<T> {
    return this.#requests.run('egress', async () => {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof EgressRefusal)) this.#conversation.abort();
        throw error;
      }
    });
  }

  async #serve(): Promise<void> {
    const signal = this.#closing.signal;
    let pauseMs = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      try {
        await this.#converse();
        pauseMs = FIRST_PAUSE_MS;
      } catch (err) {
        this.#log?.debug({ operation: 'reach egress', outcome: 'failed', err });
      }
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  /** Resolves when an egress that was told everything is gone; rejects when there is none to be told. */
  async #converse(): Promise<void> {
    this.#conversation = new AbortController();
    if (this.#closing.signal.aborted) return;
    const cut = this.#conversation;
    try {
      const gone = await this.#client.lifetime(cut.signal);
      const { protocolVersion, authorityCertificate } = await this.#client.health();
      if (protocolVersion !== PROTOCOL_VERSION) throw new Error(`egress speaks protocol ${protocolVersion}`);
      this.#trust(authorityCertificate);
      await this.#inLine(() => this.#tellAll());
      this.#log?.info({ operation: 'reach egress', outcome: 'told', sandboxes: this.#wanted.size });
      await aborted(gone);
      this.#log?.warn({ operation: 'reach egress', outcome: 'gone' });
    } finally {
      cut.abort();
      // Who waits for the first answer goes on waiting; who asks after the end of one waits for the next.
      if (this.#isTold) this.#ready = Promise.withResolvers();
      this.#isTold = false;
    }
  }

  async #tellAll(): Promise<void> {
    await this.#client.replaceAll({ sandboxes: [...this.#wanted.values()] });
    this.#isTold = true;
    this.#ready.resolve();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
