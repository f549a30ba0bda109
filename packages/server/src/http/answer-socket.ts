import { onAbort } from '@cloche/node-support';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { ClientSocket, RequestContext, Route } from './route.ts';
import { isUpgrade, takeUpgrade } from './upgrades.ts';

const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Time between two pings. A client that has not answered a ping when the next is due is disconnected. */
const PING_MS = 30_000;
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
/** Time for a client to complete the closing handshake once its key has ended. */
const CLOSING_MS = 250;

const handshakes = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  maxPayload: MAX_MESSAGE_BYTES,
  perMessageDeflate: false,
});

/** Opens the requested WebSocket once the handler has accepted the request. */
export async function answerSocket(
  route: Route & { kind: 'socket' },
  { raw }: FastifyRequest,
  reply: FastifyReply,
  context: RequestContext,
): Promise<FastifyReply> {
  if (!isUpgrade(raw)) {
    throw invalidRequest({ path: 'headers.upgrade', message: 'must be "websocket": this operation opens a WebSocket' });
  }
  const serve = await route.handle(context);
  reply.hijack();
  const upgrade = takeUpgrade(raw, reply.raw);
  // Node emits no `close` on a response whose socket was detached.
  const over = () => reply.raw.emit('close');
  if (!upgrade) return reply;
  upgrade.socket.once('close', over);
  handshakes.handleUpgrade(raw, upgrade.socket, upgrade.head, (socket) => {
    onAbort(context.signal, () => closeEarly(socket, context.signal.reason));
    keepAlive(socket);
    serve(clientSocket(socket, context.signal));
  });
  return reply;
}

function closeEarly(socket: WebSocket, reason: unknown): void {
  if (!(reason instanceof AppError && reason.is('unauthorized'))) {
    socket.close(GOING_AWAY);
    return;
  }
  socket.close(POLICY_VIOLATION, reason.code);
  setTimeout(() => socket.terminate(), CLOSING_MS).unref();
}

function clientSocket(socket: WebSocket, signal: AbortSignal): ClientSocket {
  return {
    send: (data, hasRoom) => socket.send(data, { binary: typeof data !== 'string' }, () => hasRoom?.()),
    onMessage: (take) =>
      socket.on('message', (data, isBinary) => {
        // Messages also arrive between this side's closing frame and the client's.
        if (!signal.aborted) take(isBinary ? bytesOf(data) : String(data));
      }),
    onClose: (act) => socket.once('close', act),
    close: () => socket.close(),
  };
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}

function keepAlive(socket: WebSocket): void {
  let answered = true;
  const timer = setInterval(() => {
    if (!answered) socket.terminate();
    answered = false;
    socket.ping();
  }, PING_MS);
  timer.unref();
  socket.on('pong', () => {
    answered = true;
  });
  socket.on('error', () => socket.terminate());
  socket.once('close', () => clearInterval(timer));
}
