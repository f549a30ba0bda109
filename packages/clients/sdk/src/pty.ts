import type { CommandUser, SandboxId } from '@cloche/contract';
import { PAUSED_CLOSE_CODE, SANDBOX_STATUS_FACTS } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { ClocheError } from './cloche-error.ts';
import type { CallOptions } from './request.ts';
import { untilResumed } from './until-resumed.ts';

export interface PtyOptions {
  /** Id of an existing terminal to join. The last part of its output is sent first. */
  id?: string | undefined;
  /** Size of the terminal. Default: 80 columns and 24 rows. */
  cols?: number | undefined;
  rows?: number | undefined;
  /** User of a new terminal. Default: `user`. */
  user?: CommandUser | undefined;
  onData: (data: Uint8Array) => void;
}

/** The terminals of a sandbox. */
export class Ptys {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Opens a terminal with a login shell, or joins one. Does not work in browsers, which cannot send the API key.
   *
   * ```ts
   * const pty = await sandbox.pty.open({ onData: (data) => process.stdout.write(data) });
   * pty.write('ls\n');
   * ```
   */
  async open({ id, cols, rows, user, onData }: PtyOptions): Promise<Pty> {
    const query = {
      ...(id === undefined ? {} : { ptyId: id }),
      ...(cols === undefined ? {} : { cols }),
      ...(rows === undefined ? {} : { rows }),
      ...(user === undefined ? {} : { user }),
    };
    const pty = new Pty(this.#client.openSocket('openPty', { params: { sandboxId: this.#sandboxId }, query }), onData);
    try {
      await pty.ready;
      return pty;
    } catch (error) {
      throw await this.#explain(error, id);
    }
  }

  /** Resolves when the sandbox of a terminal that a pause has disconnected is resumed, or has ended. Wakes nothing. */
  async untilResumed(options: CallOptions = {}): Promise<void> {
    await untilResumed(this.#client, this.#sandboxId, options);
  }

  /** Finds out why the connection was refused, because a WebSocket does not report it. */
  async #explain(error: unknown, ptyId: string | undefined): Promise<unknown> {
    const { sandbox } = await this.#client.call('getSandbox', { params: { sandboxId: this.#sandboxId } });
    const { id, status, paused } = sandbox;
    if (paused)
      return new ClocheError('sandbox_paused', `The sandbox ${id} is paused; resume it first.`, { cause: error });
    if (status === 'failed') return new ClocheError('sandbox_failed', `The sandbox ${id} failed.`, { cause: error });
    if (SANDBOX_STATUS_FACTS[status]?.isOver) {
      return new ClocheError('sandbox_destroyed', `The sandbox ${id} is destroyed.`, { cause: error });
    }
    const message =
      ptyId === undefined
        ? 'The terminal was refused: too many are open.'
        : `The terminal ${ptyId} does not exist, or has its maximum number of clients.`;
    return new ClocheError(ptyId === undefined ? 'unavailable' : 'not_found', message, { cause: error });
  }
}

/** A connection to a terminal. Closing it does not end the shell, which ends after some time without clients. */
export class Pty {
  /** @internal */
  readonly ready: Promise<void>;
  /** Resolves with the exit code of the shell, or undefined if the connection ended first. */
  readonly exited: Promise<number | undefined>;
  /** Whether a pause of the sandbox has ended the connection. The terminal can be joined again by its id. */
  wasPaused = false;
  readonly #socket: WebSocket;
  #id = '';

  /** @internal */
  constructor(socket: WebSocket, onData: (data: Uint8Array) => void) {
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    const ready = pending<void>();
    const exited = pending<number | undefined>();
    this.ready = ready.promise;
    this.exited = exited.promise;
    // The event has no reason.
    socket.addEventListener('error', () => ready.reject(new Error('the connection was refused')));
    socket.addEventListener('close', ({ code }: CloseEvent) => {
      this.wasPaused = code === PAUSED_CLOSE_CODE;
      ready.reject(new Error('the connection ended'));
      exited.resolve(undefined);
    });
    socket.addEventListener('message', ({ data }: MessageEvent) => {
      if (typeof data !== 'string') return onData(new Uint8Array(data as ArrayBuffer));
      const message = JSON.parse(data) as { type: string; ptyId?: string; exitCode?: number };
      if (message.type === 'exit') exited.resolve(message.exitCode);
      if (message.type !== 'ready') return;
      this.#id = message.ptyId ?? '';
      ready.resolve();
    });
  }

  /** Id of the terminal, for joining it later. */
  get id(): string {
    return this.#id;
  }

  /** Sends input to the terminal. */
  write(data: string | Uint8Array<ArrayBuffer>): void {
    this.#socket.send(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  }

  resize(cols: number, rows: number): void {
    this.#socket.send(JSON.stringify({ type: 'resize', cols, rows }));
  }

  close(): void {
    this.#socket.close();
  }
}

interface Pending<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

/** Replaces `Promise.withResolvers`, which Node before 22 lacks. */
function pending<T>(): Pending<T> {
  let functions: Omit<Pending<T>, 'promise'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    functions = { resolve, reject };
  });
  // The promise has called its function, which sets them.
  return { promise, ...(functions as unknown as Omit<Pending<T>, 'promise'>) };
}
