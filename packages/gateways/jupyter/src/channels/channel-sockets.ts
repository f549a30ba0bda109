import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { onAbort, reportTo } from '@cloche/node-support';
import type { Context } from '@cloche/sdk';
import type { Logger } from 'pino';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { isKernelGone } from '../jupyter-error.ts';
import { isControl, serveControl } from './control-requests.ts';
import type { KernelMessages } from './kernel-messages.ts';
import type { Message } from './message.ts';
import type { Connection, SharedKernel } from './shared-kernel.ts';
import { jsonWire, OFFSETS_PROTOCOL, offsetsWire, type Wire } from './wire.ts';

const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Unsent bytes of a client from which a run waits for it. */
const MAX_UNREAD_BYTES = 1024 * 1024;
/**
 * Interval at which the server checks whether the client answers, and whether its key and the kernel are still valid.
 */
const LOOK_MS = 30_000;
const INVALID_DATA = 1007;
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
/** Time for a client to complete the closing handshake. */
const CLOSING_MS = 250;
const INTERNAL_ERROR = 1011;
const NO_BYTES = Buffer.alloc(0);

export interface ChannelRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly session: string | undefined;
  readonly context: Context;
  readonly kernel: KernelMessages;
  readonly shared: SharedKernel;
  /** Place of the WebSocket, given back when it closes. Aborts when it must end. */
  readonly held: Disposable & { readonly signal: AbortSignal };
  /** Rejects if the key or the kernel no longer works. */
  readonly check: () => Promise<unknown>;
  /** Ends the kernel at a client's request. */
  readonly shutDown: () => Promise<void>;
  /** Disconnects all clients of a kernel that has ended. */
  readonly disconnectClients: () => Promise<void>;
}

/** The WebSockets of Jupyter's clients. All channels of a kernel share one. */
export class ChannelSockets {
  readonly #log: Logger;
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    handleProtocols: (protocols) => (protocols.has(OFFSETS_PROTOCOL) ? OFFSETS_PROTOCOL : false),
  });

  constructor(log: Logger) {
    this.#log = log;
  }

  open({ request, socket, ...channel }: ChannelRequest): void {
    using unserved = new DisposableStack();
    unserved.use(channel.held);
    // Calls back at once, or not at all if it refuses the handshake.
    this.#server.handleUpgrade(request, socket, NO_BYTES, (webSocket) => {
      unserved.move();
      this.#serve(webSocket, channel);
    });
  }

  close(): void {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
  }

  #serve(
    socket: WebSocket,
    {
      session,
      context,
      kernel,
      shared,
      held,
      check,
      shutDown,
      disconnectClients,
    }: Omit<ChannelRequest, 'request' | 'socket'>,
  ) {
    const wire = socket.protocol === OFFSETS_PROTOCOL ? offsetsWire : jsonWire;
    const connection: Connection = {
      session,
      context,
      kernel,
      send: (message) => this.#send(socket, wire, message),
      close: () => socket.close(),
      drop: () => socket.terminate(),
    };
    socket.on('error', () => socket.terminate());
    endEarly(socket, held);
    socket.once('close', () => shared.leave(connection));
    socket.on('message', (data, isBinary) => {
      const frame = bytesOf(data);
      const message = this.#read(socket, wire, frame, isBinary);
      if (!message) return;
      if (isControl(message))
        serveControl(shared, { connection, message, shutDown, disconnectClients }).catch(this.#onLostControl);
      // By any channel: the gateway client of jupyter_server names none.
      else if (message.header.msg_type === 'input_reply')
        shared.takeInput(connection, message).catch(this.#onLostInput);
      else if (message.channel === 'shell') shared.ask(connection, message, frame.length);
    });
    this.#watch(socket, check);
    shared.enter(connection);
  }

  readonly #onLostInput = (error: unknown) => {
    // The cell goes on to wait: the client can be asked again after an interrupt.
    this.#log.warn({ err: error }, 'a line of input did not reach its kernel');
  };

  readonly #onLostControl = (error: unknown) => {
    this.#log.error({ err: error }, 'a control request of a Jupyter client failed');
  };

  #read(socket: WebSocket, wire: Wire, bytes: Buffer, isBinary: boolean): Message | undefined {
    try {
      return wire.decode(isBinary ? bytes : bytes.toString());
    } catch (error) {
      this.#log.debug({ err: error }, 'a Jupyter client sent what is no message');
      socket.close(INVALID_DATA, 'This is no message of Jupyter.');
      return undefined;
    }
  }

  /** Resolves when the client has read enough to take more, or has gone. Never rejects. */
  #send(socket: WebSocket, wire: Wire, message: Message): Promise<void> {
    if (socket.readyState !== socket.OPEN) return Promise.resolve();
    let frame: ReturnType<Wire['encode']>;
    try {
      frame = wire.encode(message);
    } catch (error) {
      // The client would wait for it.
      this.#log.error({ err: error }, 'a message for a Jupyter client cannot be written');
      socket.close(INTERNAL_ERROR, 'A message cannot be written.');
      return Promise.resolve();
    }
    const sent = new Promise<void>((resolve) =>
      socket.send(frame, { binary: typeof frame !== 'string' }, () => resolve()),
    );
    return socket.bufferedAmount > MAX_UNREAD_BYTES ? sent : Promise.resolve();
  }

  /** Disconnects a client that does not answer, whose key has ended, or whose kernel has. */
  #watch(socket: WebSocket, check: () => Promise<unknown>): void {
    let hasAnswered = true;
    const look = async () => {
      if (!hasAnswered) return socket.terminate();
      hasAnswered = false;
      socket.ping();
      const error = await check().then(
        () => undefined,
        (failure: unknown) => failure,
      );
      if (error === undefined) return;
      const { status } = error as { status?: number };
      if (isKernelGone(error) || status === 401 || status === 403)
        socket.close(POLICY_VIOLATION, 'The kernel is gone.');
    };
    const timer = setInterval(() => look().catch(reportTo(this.#log)), LOOK_MS);
    timer.unref();
    socket.on('pong', () => {
      hasAnswered = true;
    });
    socket.once('close', () => clearInterval(timer));
  }
}

/** Disconnects the client when its place ends, and gives the place back when it has gone. */
function endEarly(socket: WebSocket, held: ChannelRequest['held']): void {
  onAbort(held.signal, () => {
    socket.close(GOING_AWAY);
    setTimeout(() => socket.terminate(), CLOSING_MS).unref();
  });
  socket.once('close', () => held[Symbol.dispose]());
}

function bytesOf(data: RawData): Buffer {
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer);
}
