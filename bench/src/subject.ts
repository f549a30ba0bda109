import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runPaths } from '@cloche/layout';
import type { HostdHealth } from '@cloche/protocol';
import { HttpClient } from './http-client.ts';

/** Time without growth after which the pool counts as full. */
const FILLING_MS = 3000;
const OWN_CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

/** Service that was started for a benchmark. */
export interface Service {
  readonly url: string;
  readonly installationId: string;
  readonly runDir: string;
  readonly pids: Readonly<Record<'server' | 'hostd' | 'egress', number>>;
}

/** Process that started a service and removes it when its standard input ends, even if this process was killed. */
type ServiceOwner = ChildProcessByStdio<Writable, Readable, null>;

export interface RunResult {
  readonly contextId: string;
  readonly stdout: string;
  readonly outputs: readonly { readonly value?: string }[];
  readonly error?: { readonly name: string; readonly message: string };
}

/** The service under test, over HTTP as any client uses it. */
export class Subject {
  readonly url: string;
  readonly apiKey: string;
  readonly http: HttpClient;
  /** Undefined for a service that was already running. */
  readonly service: Service | undefined;
  readonly #owner: ServiceOwner | undefined;

  private constructor(url: string, apiKey: string, service?: Service, owner?: ServiceOwner) {
    this.url = url;
    this.apiKey = apiKey;
    const { hostname: host, port } = new URL(url);
    this.http = new HttpClient({ host, port: Number(port || 80) }, { authorization: `Bearer ${apiKey}` });
    this.service = service;
    this.#owner = owner;
  }

  /**
   * Returns the service that `CLOCHE_URL` and `CLOCHE_API_KEY` name, or starts one on a data folder of its own.
   *
   * @param checkout folder of the version to start, with its packages; by default this one
   */
  static async open(settings: Record<string, string> = {}, checkout?: string): Promise<Subject> {
    const { CLOCHE_URL: url, CLOCHE_API_KEY: key } = process.env;
    if (url && key && Object.keys(settings).length === 0 && !checkout) return new Subject(url, key);
    const apiKey = `bench-${randomBytes(16).toString('hex')}`;
    const { CLOCHE_OCI_RUNTIME, CLOCHE_POOL_SIZE } = process.env;
    const environment = {
      CLOCHE_BOOTSTRAP_API_KEY: apiKey,
      CLOCHE_MAX_SANDBOXES: '2000',
      ...(CLOCHE_OCI_RUNTIME && { CLOCHE_OCI_RUNTIME }),
      ...(CLOCHE_POOL_SIZE && { CLOCHE_POOL_SIZE }),
      ...settings,
    };
    const { service, owner } = await startService(environment, checkout ?? OWN_CHECKOUT);
    return new Subject(service.url, apiKey, service, owner);
  }

  async close(): Promise<void> {
    this.http.close();
    if (!this.#owner || this.#owner.exitCode !== null || this.#owner.signalCode !== null) return;
    const ended = once(this.#owner, 'exit');
    this.#owner.stdin.end();
    await ended;
  }

  /** Resolves when the pool is full, or has not grown for a while, as when memory is short. */
  async settled(): Promise<void> {
    if (!this.service) return delay(FILLING_MS);
    const hostd = new HttpClient({ socketPath: runPaths(this.service.runDir).hostdSocket });
    let ready = -1;
    let since = performance.now();
    while (performance.now() - since < FILLING_MS) {
      const { pool }: HostdHealth = (await hostd.call('GET', '/health')).body;
      if (pool.ready >= pool.size) break;
      if (pool.ready > ready) since = performance.now();
      ready = pool.ready;
      await delay(50);
    }
    hostd.close();
  }

  async create(body: Record<string, unknown> = {}): Promise<string> {
    const reply = await this.#post('/v1/sandboxes', body);
    return reply.sandbox.id;
  }

  async ready(id: string): Promise<void> {
    for (;;) {
      const { body } = await this.http.call('GET', `/v1/sandboxes/${id}?waitFor=ready&waitMs=30000`);
      const { status, failureReason } = body.sandbox;
      if (status === 'ready' || status === 'idle' || status === 'running') return;
      if (status !== 'creating' && status !== 'starting') throw new Error(`${id} is ${status}: ${failureReason}`);
    }
  }

  async createReady(body: Record<string, unknown> = {}): Promise<string> {
    const id = await this.create(body);
    await this.ready(id);
    return id;
  }

  async kill(id: string): Promise<void> {
    await this.http.call('DELETE', `/v1/sandboxes/${id}`);
  }

  /** @throws when the code fails, so that errors are not measured */
  async run(id: string, code: string, options: Record<string, unknown> = {}): Promise<RunResult> {
    const { run } = await this.#post(`/v1/sandboxes/${id}/code/runs`, { code, language: 'python', ...options });
    if (run.error) throw new Error(`${run.error.name}: ${run.error.message}`);
    return run;
  }

  stream(id: string, code: string, options: Record<string, unknown> = {}): Promise<IncomingMessage> {
    const body = { code, language: 'python', ...options };
    return this.http.open('POST', `/v1/sandboxes/${id}/code/runs/stream`, body, key());
  }

  /**
   * Resolves with the command's output when it has ended.
   *
   * @throws when the command fails
   */
  async command(id: string, command: readonly string[]): Promise<string> {
    const { command: ended } = await this.#post(`/v1/sandboxes/${id}/commands`, { command });
    if (ended.exitCode !== 0) throw new Error(`${command.join(' ')}: ${ended.status} ${ended.exitCode}`);
    return ended.stdout;
  }

  /** Starts a command in the background. */
  async start(id: string, command: readonly string[]): Promise<void> {
    await this.#post(`/v1/sandboxes/${id}/commands`, { command, background: true });
  }

  /** Returns the artifact's id. */
  async exportArtifact(id: string, path: string): Promise<string> {
    const { artifact } = await this.#post(`/v1/sandboxes/${id}/artifacts`, { path });
    return artifact.id;
  }

  /** Returns a client of the server on the port, through a public preview. */
  async openPreview(id: string, port: number): Promise<HttpClient> {
    const { preview } = await this.#post(`/v1/sandboxes/${id}/previews`, { port, visibility: 'public' });
    return this.http.as(new URL(preview.url).host);
  }

  async createContext(id: string, language: string): Promise<string> {
    const { context } = await this.#post(`/v1/sandboxes/${id}/code/contexts`, { language });
    return context.id;
  }

  // biome-ignore lint/suspicious/noExplicitAny: each caller knows what its operation answers
  async #post(path: string, body: unknown): Promise<any> {
    return (await this.http.call('POST', path, body, key())).body;
  }
}

function key(): Record<string, string> {
  return { 'idempotency-key': randomUUID() };
}

/**
 * Starts the service in a session of its own: signals to the benchmark's process group do not reach it, so it can clean
 * up.
 */
async function startService(
  settings: Record<string, string>,
  checkout: string,
): Promise<{ service: Service; owner: ServiceOwner }> {
  const owner = spawn('node_modules/.bin/node', ['bench/src/subject-service.ts', JSON.stringify(settings)], {
    cwd: checkout,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(owner, 'exit').then(() => []);
  const [line] = await Promise.race([once(owner.stdout, 'data'), ended]);
  if (line === undefined) throw new Error('the service did not start');
  return { service: JSON.parse(String(line)), owner };
}
