import { randomUUID } from 'node:crypto';
import { EventEmitter, on } from 'node:events';
import type { LoggingLevel } from '@modelcontextprotocol/server';
import type { McpSession } from './session.ts';

/** The session of a host that has started this process: it lasts as long as the process. */
export class ProcessSession implements McpSession {
  readonly name = randomUUID();
  #sandboxId: string | undefined;
  #logLevel: LoggingLevel | undefined;
  #hasEnded = false;
  #subscriptions: readonly string[] = [];
  readonly #changes = new EventEmitter();

  get sandboxId(): string | undefined {
    return this.#sandboxId;
  }

  get logLevel(): LoggingLevel | undefined {
    return this.#logLevel;
  }

  async replaceSandbox(sandboxId: string): Promise<string | undefined> {
    if (this.#hasEnded) return undefined;
    this.#sandboxId = sandboxId;
    return sandboxId;
  }

  async setLogLevel(level: LoggingLevel): Promise<void> {
    this.#logLevel = level;
  }

  async subscribe(uri: string, most: number): Promise<boolean> {
    if (this.#subscriptions.includes(uri)) return true;
    if (this.#subscriptions.length >= most) return false;
    this.#set([...this.#subscriptions, uri]);
    return true;
  }

  async unsubscribe(uri: string): Promise<void> {
    this.#set(this.#subscriptions.filter((each) => each !== uri));
  }

  async *follow(signal: AbortSignal): AsyncGenerator<readonly string[]> {
    yield this.#subscriptions;
    try {
      for await (const [uris] of on(this.#changes, 'set', { signal, close: ['end'] })) yield uris;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #set(uris: readonly string[]): void {
    this.#subscriptions = uris;
    this.#changes.emit('set', uris);
  }

  /** Returns the sandbox that the session had. A sandbox that is being created is refused from now on. */
  end(): string | undefined {
    this.#hasEnded = true;
    this.#changes.emit('end');
    return this.#sandboxId;
  }
}
