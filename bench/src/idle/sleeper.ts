import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

/** Longest time in which a refused or lost request succeeds when it is repeated with its key. */
const PATIENCE_MS = 30_000;
const RETRY_MS = 200;
const RETRIED = [409, 429, 503];

export interface Service {
  readonly url: string;
  readonly apiKey: string;
}

/** The runs and files that a sandbox of the load must hold in the end. */
interface Expected {
  /** Keys of runs that were answered, and whether an attempt was lost with its server. */
  readonly runs: Map<string, { wasLost: boolean }>;
  /** Digests of files, by name. */
  readonly files: Map<string, string>;
}

/** A named sandbox of the load, which sleeps and wakes at random. */
export class Sleeper {
  readonly violations: string[] = [];
  requests = 0;
  repeats = 0;
  runsTwiceAfterLoss = 0;
  slowestMs = 0;
  readonly #service: Service;
  readonly #name: string;
  readonly #expected: Expected = { runs: new Map(), files: new Map() };
  #path = '';

  constructor(service: Service, name: string) {
    this.#service = service;
    this.#name = name;
  }

  async create(): Promise<void> {
    const pause = { afterIdleMs: 2_000, onExpiry: true };
    const { body } = await this.#send('POST', '/v1/sandboxes', { name: this.#name, ttlMs: 3_600_000, pause });
    this.#path = `/v1/sandboxes/${body.sandbox.id}`;
  }

  /** Uses, pauses and wakes the sandbox at random until the time. */
  async loadUntil(end: number): Promise<void> {
    const acts = [() => this.#run(), () => this.#run(), () => this.#write(), () => this.#move()];
    while (performance.now() < end) {
      await acts[Math.floor(Math.random() * acts.length)]?.();
      await delay(Math.random() * 4_000);
    }
  }

  /** Finds runs that were lost or executed twice, and files that differ. */
  async check(): Promise<void> {
    const count = await this.#send('POST', `${this.#path}/code/runs`, python("print(open('ran').read())"));
    const ran = Map.groupBy(count.body.run.stdout.split('\n'), (key) => key);
    for (const [key, { wasLost }] of this.#expected.runs) {
      const times = ran.get(key)?.length ?? 0;
      if (times === 2 && wasLost) this.runsTwiceAfterLoss += 1;
      else if (times !== 1) this.violations.push(`${this.#name}: the run ${key} was executed ${times} times`);
    }
    for (const [name, digest] of this.#expected.files) {
      const { body } = await this.#send('GET', `${this.#path}/files/content?path=${name}`);
      if (digestOf(body) !== digest) this.violations.push(`${this.#name}: the file ${name} differs`);
    }
  }

  async delete(): Promise<void> {
    await this.#send('DELETE', this.#path);
  }

  async #run(): Promise<void> {
    const key = randomUUID();
    const body = python(`with open('ran', 'a') as file: file.write('${key}\\n')`);
    const { body: answer, wasLost } = await this.#send('POST', `${this.#path}/code/runs`, body, key);
    if (answer.run?.error) this.violations.push(`${this.#name}: ${key}: ${JSON.stringify(answer.run.error)}`);
    else this.#expected.runs.set(key, { wasLost });
  }

  async #write(): Promise<void> {
    const name = `file-${this.#expected.files.size}`;
    const text = randomUUID().repeat(100);
    await this.#send('POST', `${this.#path}/code/runs`, python(`open('${name}', 'w').write('${text}')`));
    this.#expected.files.set(name, digestOf(text));
  }

  async #move(): Promise<void> {
    const act = Math.random() < 0.7 ? 'pause' : 'resume';
    await this.#send('POST', `${this.#path}/${act}`, {});
  }

  /** Repeats a request with its key until it succeeds. */
  async #send(method: string, path: string, body?: unknown, key: string = randomUUID()) {
    const began = performance.now();
    this.requests += 1;
    for (let wasLost = false; ; this.repeats += 1) {
      const answer = await this.#attempt(method, path, body, key);
      const ms = performance.now() - began;
      this.slowestMs = Math.max(this.slowestMs, ms);
      if (answer && answer.status < 300) return { body: answer.body, wasLost };
      wasLost ||= answer === undefined;
      const why = `${method} ${path}: ${answer?.status} ${JSON.stringify(answer?.body)}`;
      if (answer && !RETRIED.includes(answer.status)) throw new Error(`${this.#name}: ${why}`);
      if (ms > PATIENCE_MS) throw new Error(`${this.#name}: not within ${PATIENCE_MS} ms: ${why}`);
      await delay(RETRY_MS);
    }
  }

  /** Returns undefined if the connection is lost. */
  async #attempt(method: string, path: string, body: unknown, key: string) {
    const authorization = `Bearer ${this.#service.apiKey}`;
    const withBody = { authorization, 'content-type': 'application/json', 'idempotency-key': key };
    const init =
      body === undefined ? { headers: { authorization } } : { headers: withBody, body: JSON.stringify(body) };
    try {
      const response = await fetch(new URL(path, this.#service.url), { method, ...init });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.includes('json');
      return { status: response.status, body: isJson ? JSON.parse(text) : text };
    } catch {
      return undefined;
    }
  }
}

const python = (code: string) => ({ code, language: 'python' });

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
