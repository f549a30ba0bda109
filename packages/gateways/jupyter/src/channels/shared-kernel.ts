import { randomUUID } from 'node:crypto';
import type { Context } from '@cloche/sdk';
import type { Logger } from 'pino';
import type { KernelMessages } from './kernel-messages.ts';
import { type Answer, iopub, type Message, messageOf } from './message.ts';
import { ReplayBuffer, type ReplaySpace } from './replay-buffer.ts';
import { askFacts, type KernelFacts, serveShell } from './shell-requests.ts';

/**
 * Requests of the shell channel that wait for their turn: as many as the cells of a long notebook, which come at once.
 */
const MAX_WAITING = 1000;
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** Clients of a kernel at a time: each gets a copy of every message. */
export const MAX_CONNECTIONS = 32;

/** A client of a kernel. */
export interface Connection {
  /** Identifies the client, so that one that lost its connection can get the messages that it missed. */
  readonly session: string | undefined;
  /** The kernel, as the key of the client reaches it. */
  readonly context: Context;
  readonly kernel: KernelMessages;
  /** Resolves when the client reads again, or has gone. Never rejects. */
  send(message: Message): Promise<void>;
  close(): void;
  /**
   * Ends the connection at once, without a closing handshake, because the client may be gone. Unsent data counts as
   * read.
   */
  drop(): void;
}

/** A request of the shell channel, with the client that sent it. */
export interface ShellRequest {
  readonly connection: Connection;
  readonly message: Message;
}

interface WaitingRequest extends ShellRequest {
  readonly bytes: number;
}

/** A kernel as the clients of one server share it. Requests are answered in order; their outputs go to all clients. */
export class SharedKernel {
  readonly #log: Logger;
  readonly #session = randomUUID();
  readonly #connections = new Set<Connection>();
  readonly #replay: ReplayBuffer;
  readonly #ending = new AbortController();
  #waiting: WaitingRequest[] = [];
  #waitingBytes = 0;
  #current: ShellRequest | undefined;
  /** The client that the current cell has asked for a line of input. */
  #asked: Connection | undefined;
  /** Whether the clients have seen the death of the kernel, so that its replacement is no news. */
  #isDeathKnown = false;
  #isReplaced = false;
  #facts: Promise<KernelFacts | undefined> | undefined;
  /** Facts about the kernel; undefined until it has answered. */
  knownFacts: KernelFacts | undefined;
  /** Cells that the kernel has executed, as far as this server knows. */
  executionCount = 0;
  lastActivity: string | undefined;

  constructor(space: ReplaySpace, log: Logger) {
    this.#replay = new ReplayBuffer(space);
    this.#log = log;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Whether a client may connect. One that connects again takes the place of its former connection. */
  hasPlaceFor(session: string | undefined): boolean {
    const isAgain = session !== undefined && [...this.#connections].some((other) => other.session === session);
    return isAgain || this.#connections.size < MAX_CONNECTIONS;
  }

  get isBusy(): boolean {
    return this.#current !== undefined;
  }

  /** Aborts when the kernel is shut down. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /**
   * Adds a client. Replaces an earlier connection of the same client, which may be lost without this server having
   * noticed.
   */
  enter(connection: Connection): void {
    for (const former of this.#connections) if (isSame(former, connection)) this.#replace(former);
    this.#connections.add(connection);
    for (const message of this.#replay.take(connection.session)) connection.send(message).catch(this.#onFailure);
  }

  leave(connection: Connection): void {
    // A connection that was replaced is no longer in the set.
    if (!this.#connections.delete(connection)) return;
    if (this.#connections.size === 0 && this.isBusy) this.#replay.begin(connection.session);
  }

  /** Answers a request after those before it. */
  ask(connection: Connection, message: Message, bytes: number): void {
    const request = { connection, message, bytes };
    if (this.#waiting.length >= MAX_WAITING || this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      const reason = `${this.#waiting.length} requests wait already; send this one again later.`;
      if (message.header.msg_type.endsWith('_request'))
        this.#reply(request, refusal(message, reason)).catch(this.#onFailure);
      // A message without a reply cannot be refused. If it were dropped, client and kernel would disagree about their
      // state.
      else connection.close();
      return;
    }
    this.#waiting.push(request);
    this.#waitingBytes += bytes;
    if (!this.#current) this.#work().catch(this.#onFailure);
  }

  /** Answers a request at once, while others wait. */
  async answer(connection: Connection, message: Message, act: () => Promise<Answer | undefined>): Promise<void> {
    const request = { connection, message };
    await this.#serve(request, act);
    // The request that is under way is not over.
    if (this.#current) await this.#status('busy', this.#current.message);
  }

  /** Returns what is known about the kernel. Asks it once. */
  async factsOf(connection: Connection): Promise<KernelFacts | undefined> {
    const facts = this.#facts ?? askFacts(this, connection);
    this.#facts = facts;
    try {
      this.knownFacts = await facts;
      return this.knownFacts;
    } catch (error) {
      this.#facts = undefined;
      throw error;
    }
  }

  /**
   * Passes on what the kernel tells during a request: to all clients, or, if it asks for input, to the one that sent
   * it.
   */
  async pass(request: ShellRequest, answer: Answer): Promise<void> {
    if (answer.channel !== 'stdin') return this.tell(answer, request.message);
    if (request.message.content.allow_stdin !== true) return;
    this.#asked = request.connection;
    await this.#reply(request, answer);
  }

  /** Passes a line of input on to the cell that has asked this client for it. */
  async takeInput(connection: Connection, message: Message): Promise<void> {
    if (!this.#asked || !isSame(this.#asked, connection)) return;
    this.#asked = undefined;
    await connection.kernel.answer(message);
  }

  /** Notes how a cell ended. Clients are told after its reply that the kernel was replaced before it, unless they know. */
  noteEnd({ isStateLost, isDeath }: { readonly isStateLost: boolean; readonly isDeath: boolean }): void {
    this.#isReplaced ||= isStateLost && !this.#isDeathKnown;
    this.#isDeathKnown = isDeath;
  }

  /** Drops what waits, as the kernel has been replaced. */
  forget(): void {
    this.executionCount = 0;
    this.abortWaiting();
  }

  /** Answers the cells that wait without executing them. */
  abortWaiting(): void {
    const cells = this.#waiting.filter(({ message }) => message.header.msg_type === 'execute_request');
    this.#keepWaiting(this.#waiting.filter(({ message }) => message.header.msg_type !== 'execute_request'));
    for (const request of cells) this.#reply(request, refusal(request.message, undefined)).catch(this.#onFailure);
  }

  /** Sends a message to all clients. Resolves when all of them read. */
  async tell(answer: Answer, request?: Message): Promise<void> {
    const message = messageOf(answer, this.#session, request);
    if (this.#connections.size === 0) this.#replay.add(message);
    await Promise.all([...this.#connections].map((connection) => connection.send(message)));
  }

  /** Tells the clients that the kernel has ended, and disconnects them. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#keepWaiting([]);
    this.#replay.clear();
    await this.#status('dead', undefined);
    for (const connection of this.#connections) connection.close();
  }

  async #work(): Promise<void> {
    for (let request = this.#waiting.shift(); request; request = this.#waiting.shift()) {
      const served = request;
      this.#waitingBytes -= served.bytes;
      this.#current = served;
      // A failure of one request must not leave those after it without an answer.
      await this.#serve(served, () => serveShell(this, served)).catch((error: unknown) => {
        this.#onFailure(error);
        served.connection.drop();
      });
      this.#asked = undefined;
      if (this.#isReplaced) await this.#tellReplaced();
    }
    this.#current = undefined;
  }

  readonly #onFailure = (error: unknown): void => {
    this.#log.error({ err: error }, 'a message between a kernel and its clients failed');
  };

  #replace(former: Connection): void {
    this.#connections.delete(former);
    former.drop();
  }

  #keepWaiting(requests: WaitingRequest[]): void {
    this.#waiting = requests;
    this.#waitingBytes = requests.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  async #serve(request: ShellRequest, act: () => Promise<Answer | undefined>): Promise<void> {
    this.lastActivity = new Date().toISOString();
    await this.#status('busy', request.message);
    // A shutdown of the kernel aborts its cell.
    const reply = await act().catch((error: unknown) => refusal(request.message, String(error)));
    if (reply) await this.#reply(request, reply);
    await this.#status('idle', request.message);
  }

  async #tellReplaced(): Promise<void> {
    this.#isReplaced = false;
    await this.#status('restarting', undefined);
    await this.#status('idle', undefined);
  }

  #status(execution_state: string, request: Message | undefined): Promise<void> {
    return this.tell(iopub('status', { execution_state }), request);
  }

  /** Sends a reply to the client that asked, also if it has connected again. */
  async #reply({ connection, message: request }: ShellRequest, reply: Answer): Promise<void> {
    const message = messageOf(reply, this.#session, request);
    const present = this.#connections.has(connection)
      ? connection
      : [...this.#connections].find((other) => isSame(other, connection));
    if (present) await present.send(message);
    else this.#replay.add(message);
  }
}

/** Returns whether both connections are of one client. */
function isSame(one: Connection, other: Connection): boolean {
  return one === other || (one.session !== undefined && one.session === other.session);
}

/** Returns the reply to a request that is not served. Without a reason, it was aborted with the requests before it. */
function refusal({ channel, header }: Message, reason: string | undefined): Answer {
  const type = header.msg_type.replace(/_request$/, '_reply');
  const content = reason
    ? { status: 'error', ename: 'Refused', evalue: reason, traceback: [reason] }
    : { status: 'aborted' };
  return { channel, type, content };
}
