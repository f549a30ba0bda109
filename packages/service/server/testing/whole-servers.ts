/** Several whole servers of one PostgreSQL database in this process, which share a runtime. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { pino } from 'pino';
import { type Server, startServer } from '../src/compose/compose.ts';
import { readConfig } from '../src/compose/config.ts';
import { BOOTSTRAP_KEY } from './bootstrap-key.ts';
import { type ApiAnswer, callApi } from './call-api.ts';
import { SERVER_SETTINGS } from './server-settings.ts';
import { testDatabaseSettings } from './test-database.ts';

export class WholeServers implements AsyncDisposable {
  readonly driver = new FakeRuntimeDriver();
  readonly folder = mkdtempSync(join(tmpdir(), 'cloche-servers-'));
  readonly #servers: Server[] = [];
  readonly #databaseUrl: string;
  readonly #settings: Readonly<Record<string, string>>;
  #stopped: Promise<unknown> | undefined;

  private constructor(databaseUrl: string, settings: Readonly<Record<string, string>>) {
    this.#databaseUrl = databaseUrl;
    this.#settings = settings;
  }

  static async open(count: number, settings: Readonly<Record<string, string>> = {}): Promise<WholeServers> {
    const { CLOCHE_DATABASE_URL: url } = await testDatabaseSettings();
    if (url === undefined) throw new Error('several servers take PostgreSQL');
    return WholeServers.openFor(url, count, settings);
  }

  /** Opens servers of a database that the test has made itself. */
  static async openFor(
    url: string,
    count: number,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<WholeServers> {
    const servers = new WholeServers(url, settings);
    await using opened = new AsyncDisposableStack();
    opened.use(servers);
    // The first one makes the organization and its key.
    await servers.start();
    const others = await Promise.allSettled(Array.from({ length: count - 1 }, () => servers.start()));
    for (const other of others) if (other.status === 'rejected') throw other.reason;
    opened.move();
    return servers;
  }

  get databaseUrl(): string {
    return this.#databaseUrl;
  }

  get count(): number {
    return this.#servers.length;
  }

  /** Starts another server and returns its index. */
  async start(databaseUrl = this.#databaseUrl): Promise<number> {
    const own = mkdtempSync(join(this.folder, 'server-'));
    const config = readConfig({
      CLOCHE_DATABASE_URL: databaseUrl,
      ...SERVER_SETTINGS,
      CLOCHE_DATA_DIR: join(own, 'data'),
      CLOCHE_RUN_DIR: join(own, 'run'),
      CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
      ...this.#settings,
    });
    return this.#servers.push(await startServer(config, pino({ level: 'silent' }), this.driver)) - 1;
  }

  urlOf(server: number): string {
    const { url } = this.#servers[server % this.#servers.length] ?? {};
    if (url === undefined) throw new Error('there is no server');
    return url;
  }

  call(server: number, method: string, path: string, body?: unknown, idempotencyKey?: string): Promise<ApiAnswer> {
    return callApi(this.urlOf(server) + path, method, { key: BOOTSTRAP_KEY, body, idempotencyKey });
  }

  async readySandbox(): Promise<string> {
    const { body } = await this.call(0, 'POST', '/v1/sandboxes', {});
    const got = await this.call(0, 'GET', `/v1/sandboxes/${body.sandbox.id}?waitFor=ready&waitMs=30000`);
    if (got.body.sandbox?.status !== 'ready') throw new Error(JSON.stringify(got.body));
    return body.sandbox.id;
  }

  /** Stops the servers; their URLs are refused from then on. */
  async stop(): Promise<void> {
    const stopped = this.#stopped ?? Promise.all(this.#servers.map((server) => server.stop()));
    this.#stopped = stopped;
    await stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
