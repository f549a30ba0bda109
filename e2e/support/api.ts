/** Sends requests to the API and returns raw responses, because these tests check details that the SDK hides. */
import { randomUUID } from 'node:crypto';
import type { CodeRun, CodeRunEvent, Sandbox } from '@cloche/contract';
import { createParser } from 'eventsource-parser';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // The tests look into bodies of every shape, wrong ones included.
  // biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
  readonly body: any;
}

export interface RequestOptions {
  body?: unknown;
  /** Idempotency key; `auto` generates a new one. */
  key?: string | 'auto';
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface RunOptions {
  language?: 'python' | 'javascript' | 'typescript';
  contextId?: string;
  timeoutMs?: number;
  cwd?: string;
}

export class Api {
  readonly url: string;
  readonly #apiKey: string | undefined;

  constructor(url: string, apiKey: string | undefined) {
    this.url = url;
    this.#apiKey = apiKey;
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const response = await this.#fetch(method, path, options);
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('application/json') ?? false;
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
  }

  get(path: string): Promise<Answer> {
    return this.request('GET', path);
  }

  post(path: string, body?: unknown, key: string | 'auto' = 'auto'): Promise<Answer> {
    return this.request('POST', path, { body, key });
  }

  delete(path: string): Promise<Answer> {
    return this.request('DELETE', path);
  }

  /** Creates a sandbox and resolves when it is ready. */
  async readySandbox(body: Record<string, unknown> = {}): Promise<Sandbox> {
    const created = await this.post('/v1/sandboxes', body);
    if (created.status !== 201) throw new Error(`create: ${created.status} ${JSON.stringify(created.body)}`);
    const got = await this.get(`/v1/sandboxes/${created.body.sandbox.id}?waitFor=ready&waitMs=30000`);
    if (got.body.sandbox?.status !== 'ready') throw new Error(`not ready: ${JSON.stringify(got.body)}`);
    return got.body.sandbox;
  }

  async run(sandboxId: string, code: string, options: RunOptions = {}): Promise<CodeRun> {
    const answer = await this.post(`/v1/sandboxes/${sandboxId}/code/runs`, { code, language: 'python', ...options });
    if (answer.status !== 200) throw new Error(`run: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.run;
  }

  /** Resolves with the response of a stream, before its first event. */
  openStream(
    sandboxId: string,
    code: string,
    options: RunOptions & { key?: string; signal?: AbortSignal } = {},
  ): Promise<Response> {
    const { key, signal, ...body } = options;
    return this.#fetch('POST', `/v1/sandboxes/${sandboxId}/code/runs/stream`, {
      body: { code, language: 'python', ...body },
      key: key ?? 'auto',
      ...(signal ? { signal } : {}),
    });
  }

  async *stream(
    sandboxId: string,
    code: string,
    options: RunOptions & { key?: string } = {},
  ): AsyncGenerator<CodeRunEvent> {
    yield* readEvents(await this.openStream(sandboxId, code, options));
  }

  #fetch(method: string, path: string, { body, key, headers, signal }: RequestOptions): Promise<Response> {
    return fetch(new URL(path, this.url), {
      method,
      headers: {
        ...(this.#apiKey === undefined ? {} : { authorization: `Bearer ${this.#apiKey}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'idempotency-key': key === 'auto' ? randomUUID() : key }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  }
}

export async function* readEvents(response: Response): AsyncGenerator<CodeRunEvent> {
  if (response.status !== 200 || !response.body) throw new Error(`stream: ${response.status} ${await response.text()}`);
  const arrived: CodeRunEvent[] = [];
  const parser = createParser({ onEvent: ({ data }) => arrived.push(JSON.parse(data)) });
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* arrived.splice(0);
  }
}
