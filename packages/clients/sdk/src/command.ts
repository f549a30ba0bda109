import type { CommandEvent, Command as CommandInfo, CommandLogEntry, Signal } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';
import { type PauseCallback, untilResumed } from './until-resumed.ts';
import { type WaitOptions, waitForEnd } from './wait-for-end.ts';

export interface FollowOptions extends CallOptions, PauseCallback {
  /** Only output after the entry with this number. Default: all. */
  afterSeq?: number | undefined;
}

/** A command in a sandbox. */
export class Command {
  readonly #client: ApiClient;
  #info: CommandInfo;

  constructor(client: ApiClient, info: CommandInfo) {
    this.#client = client;
    this.#info = info;
  }

  get id(): CommandInfo['id'] {
    return this.#info.id;
  }

  /** The last known state; `refresh` updates it. */
  get info(): Readonly<CommandInfo> {
    return this.#info;
  }

  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('getCommand', { ...options, params: this.#params }));
  }

  /**
   * Waits for the command's end. Waits up to 30 seconds for an unreachable service, for example while it restarts.
   * @throws {ClocheError} `deadline_exceeded`: the command is still running.
   */
  async wait(options: WaitOptions = {}): Promise<CommandInfo> {
    const refresh = async (waitMs: number, callOptions: CallOptions) => {
      this.#take(await this.#client.call('getCommand', { ...callOptions, params: this.#params, query: { waitMs } }));
    };
    const hasEnded = () => this.#info.status !== 'running';
    await waitForEnd(this.#client, { name: `Command ${this.id}`, hasEnded, refresh }, options);
    return this.#info;
  }

  /**
   * Yields the output so far and the output to come, in order, until the command ends. Reconnects where it stopped, also
   * when something resumes a sandbox that was paused.
   */
  async *logs(options: FollowOptions = {}): AsyncGenerator<CommandLogEntry, void> {
    for await (const event of this.events(options)) if (event.type === 'log') yield event.data;
  }

  /**
   * Yields the output as `logs` does, then `exit` with the ended command. Leaving the loop does not affect the command.
   */
  async *events({ afterSeq = 0, onPaused, ...options }: FollowOptions = {}): AsyncGenerator<CommandEvent, void> {
    const request = { ...options, params: this.#params, query: { afterSeq } };
    const afterPause = async () => {
      await onPaused?.();
      await untilResumed(this.#client, this.#info.sandboxId, options);
    };
    for await (const event of this.#client.follow('streamCommand', request, afterPause)) {
      if (event.type === 'exit') this.#info = event.data;
      yield event;
    }
  }

  /** Writes to standard input; requires `stdinOpen`. Resolves when all data is written. */
  async sendStdin(data: string | Uint8Array, { close = false, ...options }: CallOptions & { close?: boolean } = {}) {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length || at === 0; at += STDIN_BYTES) {
      const piece = bytes.subarray(at, at + STDIN_BYTES);
      const isLast = at + STDIN_BYTES >= bytes.length;
      const body = { data: base64(piece), encoding: 'base64', close: close && isLast } as const;
      this.#take(await this.#client.call('writeCommandStdin', { ...options, params: this.#params, body }));
    }
  }

  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.sendStdin('', { ...options, close: true });
  }

  /**
   * Resizes the terminal of a command that was started with `terminal`.
   * @throws {ClocheError} `conflict`: the command has ended or has no terminal.
   */
  async resize(cols: number, rows: number, options: CallOptions = {}): Promise<this> {
    const request = { ...options, params: this.#params, body: { cols, rows } };
    return this.#take(await this.#client.call('resizeCommand', request));
  }

  /** Sends a signal to the command and all processes that it started. Default: `SIGKILL`. Idempotent. */
  async kill(signal: Signal = 'SIGKILL', options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('killCommand', { ...options, params: this.#params, body: { signal } }));
  }

  get #params() {
    return { sandboxId: this.#info.sandboxId, commandId: this.#info.id };
  }

  #take({ command }: { command: CommandInfo }): this {
    this.#info = command;
    return this;
  }
}

/** Bytes of one write. Divisible by three, so that only the last piece has base64 padding. */
const STDIN_BYTES = 384 * 1024;

/** Encodes bytes without Node.js's Buffer, which browsers lack. */
function base64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}
