import { randomBytes, randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Installation, startInstallation } from '@cloche/setup';
import { HttpClient } from './http-client.ts';

export interface RunResult {
  readonly contextId: string;
  readonly stdout: string;
  readonly outputs: readonly { readonly value?: string }[];
  readonly error?: { readonly name: string; readonly message: string };
}

/** The service under test, over HTTP as any client has it. */
export class Subject {
  readonly http: HttpClient;
  /** Undefined where it is one that runs already. */
  readonly installation: Installation | undefined;

  private constructor(url: string, apiKey: string, installation?: Installation) {
    const { hostname: host, port } = new URL(url);
    this.http = new HttpClient({ host, port: Number(port || 80) }, { authorization: `Bearer ${apiKey}` });
    this.installation = installation;
  }

  /** The one that `CLOCHE_URL` and `CLOCHE_API_KEY` name, or one that is started for it on a data folder of its own. */
  static async open(settings: Record<string, string> = {}): Promise<Subject> {
    const { CLOCHE_URL: url, CLOCHE_API_KEY: key } = process.env;
    if (url && key && Object.keys(settings).length === 0) return new Subject(url, key);
    const apiKey = `bench-${randomBytes(16).toString('hex')}`;
    const dataDir = mkdtempSync(join(tmpdir(), 'cloche-bench-'));
    // The server's user finds its own folder in it.
    chmodSync(dataDir, 0o711);
    const { CLOCHE_OCI_RUNTIME, CLOCHE_POOL_SIZE } = process.env;
    const env = {
      CLOCHE_BOOTSTRAP_API_KEY: apiKey,
      CLOCHE_MAX_SANDBOXES: '2000',
      ...(CLOCHE_OCI_RUNTIME && { CLOCHE_OCI_RUNTIME }),
      ...(CLOCHE_POOL_SIZE && { CLOCHE_POOL_SIZE }),
      ...settings,
    };
    const installation = await startInstallation({ dataDir, env, supervise: false });
    return new Subject(installation.url, apiKey, installation);
  }

  async close(): Promise<void> {
    this.http.close();
    if (!this.installation) return;
    await this.installation.stop({ destroyAll: true });
    for (const folder of [this.installation.dataDir, this.installation.runDir]) {
      rmSync(folder, { recursive: true, force: true });
    }
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

  /** @throws when the code fails: a benchmark of errors would be one of nothing. */
  async run(id: string, code: string, options: Record<string, unknown> = {}): Promise<RunResult> {
    const { run } = await this.#post(`/v1/sandboxes/${id}/code/runs`, { code, language: 'python', ...options });
    if (run.error) throw new Error(`${run.error.name}: ${run.error.message}`);
    return run;
  }

  stream(id: string, code: string, options: Record<string, unknown> = {}): Promise<IncomingMessage> {
    const body = { code, language: 'python', ...options };
    return this.http.open('POST', `/v1/sandboxes/${id}/code/runs/stream`, body, key());
  }

  /** Waits for its end. @throws when it fails */
  async command(id: string, command: readonly string[]): Promise<void> {
    const { command: ended } = await this.#post(`/v1/sandboxes/${id}/commands`, { command });
    if (ended.exitCode !== 0) throw new Error(`${command.join(' ')}: ${ended.status} ${ended.exitCode}`);
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
