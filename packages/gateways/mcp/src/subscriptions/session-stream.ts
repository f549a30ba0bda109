import type { ServerResponse } from 'node:http';
import type { Cloche } from '@cloche/sdk';
import { SESSION_HEADER } from '../sessions/opening-sessions.ts';
import type { McpSession } from '../sessions/session.ts';
import { followSubscriptions } from './follow-subscriptions.ts';

/** Shorter than the time after which proxies close a connection that carries nothing. */
const KEEP_ALIVE_MS = 15_000;

export interface StreamOptions {
  readonly cloche: Cloche;
  readonly session: McpSession;
  readonly sessionId: string;
  readonly signal: AbortSignal;
}

/** Sends the changes of a session's subscriptions as server-sent events, until the session ends or `signal` aborts. */
export async function sendSessionStream(response: ServerResponse, options: StreamOptions): Promise<void> {
  const { cloche, session, sessionId, signal } = options;
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    'x-accel-buffering': 'no',
    [SESSION_HEADER]: sessionId,
  });
  const write = async (text: string) => {
    if (response.destroyed || response.write(text)) return;
    await new Promise<void>((resolve) => response.once('drain', resolve).once('close', resolve));
  };
  // A client learns at once that the stream is open.
  await write(': open\n\n');
  const keepAlive = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': alive\n\n');
  }, KEEP_ALIVE_MS);
  try {
    const tell = (uri: string) => {
      const message = { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } };
      return write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    };
    await followSubscriptions({ cloche, session, signal, tell });
  } finally {
    clearInterval(keepAlive);
    response.end();
  }
}
