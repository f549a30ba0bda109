import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endPacing } from './pace-chunks.ts';

/** Time for a client to read an answer and close. Closing at once with unread bytes could make it lose the answer. */
const LINGER_MS = 1_000;

export interface Refusal {
  readonly status: number;
  readonly fields?: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Left {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** Bytes already received after the request. */
  readonly head: Buffer;
  /** Time for the connection to be taken or answered. */
  readonly leaveMs: number;
}

/**
 * A connection that asks to leave its HTTP server, by an upgrade or CONNECT. Node has removed its listeners and timers.
 * What the client sends before the answer waits in the socket's buffer, which bounds it.
 */
export class LeavingConnection {
  readonly request: IncomingMessage;
  readonly #socket: Socket;
  readonly #deadline: NodeJS.Timeout;
  #response: ServerResponse | undefined;
  #state: 'waiting' | 'taken' | 'answered' = 'waiting';

  constructor({ request, socket, head, leaveMs }: Left) {
    this.request = request;
    this.#socket = socket;
    if (head.length > 0) socket.unshift(head);
    // Fills the buffer without a listener, so that a reset shows at once, and the end of the client's side is kept.
    socket.read(0);
    this.#deadline = setTimeout(() => this.#giveUp(), leaveMs);
    socket.once('close', () => clearTimeout(this.#deadline));
  }

  /** Whether the connection waits for its answer and the client is still there. */
  get isWaiting(): boolean {
    return this.#state === 'waiting' && !this.#socket.destroyed;
  }

  /** Answers as to an ordinary request and closes the connection. One that was taken is destroyed without an answer. */
  refuse(refusal: Refusal): void {
    if (this.#state === 'taken') this.#socket.destroy();
    if (!this.isWaiting) return;
    answerRefusal(this.respond(), refusal);
  }

  /**
   * Returns the response of the request, for code that serves it as an ordinary one. Always the same response. The
   * connection closes after it, unless it is taken before.
   */
  respond(): ServerResponse {
    this.#response ??= this.#open();
    return this.#response;
  }

  /**
   * Takes the connection away from HTTP: its bytes from here on are the caller's, who destroys it. Returns undefined if
   * the client has left or the request was answered. The response, if there is one, closes with the connection.
   */
  take(): Socket | undefined {
    const socket = this.takePaced();
    if (socket) endPacing(socket);
    return socket;
  }

  /** Like `take`, for a connection that may carry HTTP again: its chunks stay paced until `endPacing`. */
  takePaced(): Socket | undefined {
    if (!this.isWaiting || this.#response?.headersSent) return undefined;
    this.#state = 'taken';
    clearTimeout(this.#deadline);
    const socket = this.#socket;
    const response = this.#response;
    if (response) {
      response.detachSocket(socket);
      // Node emits no `close` on a response whose socket was detached.
      socket.once('close', () => response.emit('close'));
    }
    return socket;
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #open(): ServerResponse {
    const response = new ServerResponse(this.request);
    response.shouldKeepAlive = false;
    response.on('error', () => undefined);
    if (!this.isWaiting) {
      response.destroy();
      process.nextTick(() => response.emit('close'));
      return response;
    }
    response.assignSocket(this.#socket);
    response.once('finish', () => this.#end());
    return response;
  }

  #end(): void {
    this.#state = 'answered';
    clearTimeout(this.#deadline);
    // Unread bytes would keep the socket open.
    this.#socket.resume();
    endAndDestroy(this.#socket);
  }

  /** An answer that has begun is not cut off: its end closes the connection. */
  #giveUp(): void {
    if (!this.#response?.headersSent) this.#socket.destroy();
  }
}

/** Sends a refusal as the whole answer to a request. */
export function answerRefusal(response: ServerResponse, { status, fields, body }: Refusal): void {
  response.writeHead(status, { ...fields, 'content-length': Buffer.byteLength(body) }).end(body);
}

/** Ends a connection that is being read, and destroys it if the client does not close its side soon. */
export function endAndDestroy(socket: Socket, lastBytes = ''): void {
  socket.end(lastBytes);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
