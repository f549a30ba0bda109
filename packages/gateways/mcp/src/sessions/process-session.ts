import { randomUUID } from 'node:crypto';
import type { LoggingLevel } from '@modelcontextprotocol/server';
import type { McpSession } from './session.ts';

/** The session of a host that has started this process: it lasts as long as the process. */
export class ProcessSession implements McpSession {
  readonly name = randomUUID();
  #sandboxId: string | undefined;
  #logLevel: LoggingLevel | undefined;
  #hasEnded = false;

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

  /** Returns the sandbox that the session had. A sandbox that is being created is refused from now on. */
  end(): string | undefined {
    this.#hasEnded = true;
    return this.#sandboxId;
  }
}
