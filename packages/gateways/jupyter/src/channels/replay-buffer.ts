import type { Message } from './message.ts';

/** Remaining bytes that all kernels of a server may keep for clients that lost their connections. */
export interface ReplaySpace {
  left: number;
}

/** The messages that a client has missed since it lost its connection. */
export class ReplayBuffer {
  readonly #space: ReplaySpace;
  #session: string | undefined;
  #messages: Message[] = [];
  #bytes = 0;

  constructor(space: ReplaySpace) {
    this.#space = space;
  }

  /** Begins to keep messages for the client. */
  begin(session: string | undefined): void {
    this.clear();
    this.#session = session;
  }

  /** Keeps a message, if a client may come back for it and there is room. */
  add(message: Message): void {
    if (this.#session === undefined) return;
    const bytes = message.buffers.reduce((sum, { length }) => sum + length, JSON.stringify(message.content).length);
    if (bytes > this.#space.left) return;
    this.#space.left -= bytes;
    this.#bytes += bytes;
    this.#messages.push(message);
  }

  /** Returns what the client has missed. Discards it if another one comes. */
  take(session: string | undefined): Message[] {
    const messages = session !== undefined && session === this.#session ? this.#messages : [];
    this.clear();
    return messages;
  }

  clear(): void {
    this.#space.left += this.#bytes;
    this.#bytes = 0;
    this.#messages = [];
    this.#session = undefined;
  }
}
