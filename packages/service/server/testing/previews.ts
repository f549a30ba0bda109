/** A whole server on a fake runtime, with one sandbox and a real app behind a port of it, called over real sockets. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Preview } from '@cloche/contract';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { pino } from 'pino';
import { startServer } from '../src/compose/compose.ts';
import { readConfig } from '../src/compose/config.ts';
import { BOOTSTRAP_KEY } from './bootstrap-key.ts';
import { callApi } from './call-api.ts';
import { SERVER_SETTINGS } from './server-settings.ts';
import { testDatabaseSettings } from './test-database.ts';

export const APP_PORT = 8000;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Ask {
  method?: string;
  path?: string;
  headers?: Record<string, string | string[]>;
  body?: string;
}

export type PreviewWorld = Awaited<ReturnType<typeof openPreviewWorld>>;

export async function openPreviewWorld(
  env: Record<string, string> = {},
  driver = new FakeRuntimeDriver(),
  creation: object = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-previews-'));
  const database = await testDatabaseSettings(join(folder, 'data'));
  const config = readConfig({
    ...database,
    ...SERVER_SETTINGS,
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_RUN_DIR: join(folder, 'run'),
    CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
    ...env,
  });
  const server = await startServer(config, pino({ level: 'silent' }), driver);
  const port = Number(new URL(server.url).port);
  const apps: Server[] = [];

  const call = (method: string, path: string, body?: unknown, idempotencyKey?: string) =>
    callApi(server.url + path, method, { key: BOOTSTRAP_KEY, body, idempotencyKey });
  const { body } = await call('POST', '/v1/sandboxes', creation);
  const sandboxId: string = body.sandbox.id;
  await call('GET', `/v1/sandboxes/${sandboxId}?waitFor=ready`);

  const connectOwn = () => connect({ host: '127.0.0.1', port }).on('error', () => undefined);
  const ask = (host: string, { method = 'GET', path = '/', headers = {}, body }: Ask = {}): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, method, path, headers: { ...headers, host }, agent: false });
      sent.once('error', reject).once('response', (response) => {
        const { statusCode = 0, headers: answered } = response;
        text(response).then((all) => resolve({ status: statusCode, headers: answered, text: all }), reject);
      });
      sent.end(body);
    });

  return {
    server,
    folder,
    driver,
    port,
    key: BOOTSTRAP_KEY,
    sandboxId,
    agent: driver.agentOf(sandboxId),
    call,
    ask,
    /** Starts an app that listens at `appPort` of the sandbox. */
    async serve(listener: RequestListener, appPort = APP_PORT): Promise<Server> {
      const app = createServer(listener);
      apps.push(app);
      await once(app.listen(0, '127.0.0.1'), 'listening');
      driver.agentOf(sandboxId).ports.map(appPort, (app.address() as AddressInfo).port);
      return app;
    },
    async open(body: Record<string, unknown> = {}): Promise<Preview & { host: string }> {
      const answer = await call('POST', `/v1/sandboxes/${sandboxId}/previews`, { port: APP_PORT, ...body });
      if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
      return { ...answer.body.preview, host: new URL(answer.body.preview.url).host };
    },
    /** Sends bytes as they are; what comes back until the end. */
    async raw(bytes: string): Promise<string> {
      const socket = connectOwn();
      socket.write(bytes);
      return text(socket);
    },
    /** A connection to write to as one likes. */
    connect: connectOwn,
    async close(): Promise<void> {
      await server.stop();
      for (const app of apps) {
        app.closeAllConnections();
        app.close();
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Fields with which a client asks for a WebSocket. */
export const SWITCH =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** An app that answers what it was asked. */
export const echo: RequestListener = (request, response) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers }));
};
