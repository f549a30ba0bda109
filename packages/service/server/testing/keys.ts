/** A whole server on a fake runtime with keys of all kinds, its files and its log. */
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { pino } from 'pino';
import { type Server, startServer } from '../src/compose/compose.ts';
import { readConfig } from '../src/compose/config.ts';
import { BOOTSTRAP_KEY } from './bootstrap-key.ts';
import { type ApiAnswer, type ApiCall, callApi } from './call-api.ts';
import { SERVER_SETTINGS } from './server-settings.ts';
import { StoredRows } from './stored-rows.ts';
import { testDatabaseSettings } from './test-database.ts';

export type KeyWorld = Awaited<ReturnType<typeof openKeyWorld>>;

export async function openKeyWorld(bootstrapKey = BOOTSTRAP_KEY, settings: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-keys-'));
  const driver = new FakeRuntimeDriver();
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) });
  const database = await testDatabaseSettings(join(folder, 'data'));
  const configWith = (changed: Readonly<Record<string, string>>) =>
    readConfig({
      ...database,
      ...SERVER_SETTINGS,
      CLOCHE_DATA_DIR: join(folder, 'data'),
      CLOCHE_RUN_DIR: join(folder, 'run'),
      CLOCHE_BOOTSTRAP_API_KEY: bootstrapKey,
      ...changed,
    });
  const config = configWith(settings);
  let server: Server = await startServer(config, log, driver);
  let isRunning = true;
  const stop = async (): Promise<void> => {
    if (isRunning) await server.stop();
    isRunning = false;
  };

  /** The default key is the operator's, which has every scope. */
  const call = (method: string, path: string, options: ApiCall = {}): Promise<ApiAnswer> =>
    callApi(server.url + path, method, { key: bootstrapKey, ...options });

  return {
    folder,
    stored: new StoredRows(config.databaseUrl),
    driver,
    lines,
    call,
    get url() {
      return server.url;
    },
    /** Creates a key with the operator's key. */
    async create(body: Record<string, unknown> = {}, key = bootstrapKey): Promise<{ id: string; secret: string }> {
      const answer = await call('POST', '/v1/api-keys', { key, body: { name: 'test', scopes: ['*'], ...body } });
      if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
      return { id: answer.body.apiKey.id, secret: answer.body.secret };
    },
    async readySandbox(key = bootstrapKey): Promise<string> {
      const { body } = await call('POST', '/v1/sandboxes', { key, body: {} });
      await call('GET', `/v1/sandboxes/${body.sandbox.id}?waitFor=ready`, { key });
      return body.sandbox.id;
    },
    operator(method: string, path: string, body?: unknown): Promise<ApiAnswer['body']> {
      return new Promise((resolve, reject) => {
        const socketPath = join(folder, 'run', 'server', 'operator.sock');
        const headers = { 'content-type': 'application/json' };
        const sent = request({ socketPath, method, path, headers, agent: false }, async (response) => {
          resolve(JSON.parse((await response.setEncoding('utf8').toArray()).join('')));
        });
        sent.once('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
      });
    },
    /** Also restarts a server whose last start has failed. */
    async restart(changed = settings): Promise<void> {
      await stop();
      server = await startServer(configWith(changed), log, driver);
      isRunning = true;
    },
    async close(): Promise<void> {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
