import type { IncomingMessage } from 'node:http';
import { onAbort } from '@cloche/node-support';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { ClientSocket, RequestContext, Route } from './route.ts';
import { upgradeOf } from './upgrades.ts';

const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Time between two pings. A client that has not answered a ping when the next is due is disconnected. */
const PING_MS = 30_000;
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
/** Time for a client to complete the closing handshake once its key has ended. */
const CLOSING_MS = 250;
const VERSION = '13';
const KEY = /^[+/0-9A-Za-z]{22}==$/;
const NO_BYTES = Buffer.alloc(0);

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
  const upgrade = upgradeOf(raw);
  if (!upgrade) {
    throw invalidRequest({ path: 'headers.upgrade', message: 'must be "websocket": this operation opens a WebSocket' });
  }
  requireHandshake(raw);
  const { signal } = context.call;
  const session = await route.handle(context);
  let isServed = false;
  try {
    reply.hijack();
    const socket = upgrade.take();
    // Calls back in this turn, or never if the client has left.
    if (socket)
      handshakes.handleUpgrade(raw, socket, NO_BYTES, (webSocket) => {
        isServed = true;
        onAbort(signal, () => closeEarly(webSocket, signal.reason));
        keepAlive(webSocket);
        session.serve(clientSocket(webSocket, signal));
      });
  } finally {
    if (!isServed) session[Symbol.dispose]();
  }
  return reply;
}

/** Checks the fields of a WebSocket's handshake before the handler opens anything for it. */
function requireHandshake({ headers }: IncomingMessage): void {
  if (headers['sec-websocket-version'] !== VERSION) {
    throw invalidRequest({ path: 'headers.sec-websocket-version', message: `must be ${VERSION}` });
  }
  if (!KEY.test(headers['sec-websocket-key'] ?? '')) {
    throw invalidRequest({ path: 'headers.sec-websocket-key', message: 'must be 16 bytes in base64' });
  }
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
    close: (reason) => socket.close(reason?.code, reason?.text),
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
