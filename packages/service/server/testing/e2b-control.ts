/** Requests of E2B's clients to the control plane of a server with a fake runtime. */
import assert from 'node:assert/strict';
import type { Sandbox } from '@cloche/contract';
import type { Tenants } from './tenants.ts';

/** Largest difference between a time of an answer and the time that a test computes. */
const SLACK_MS = 30_000;

/** A sandbox as E2B's clients are shown it. */
export interface ShownSandbox {
  readonly sandboxID: string;
  readonly state: 'running' | 'paused';
  readonly startedAt: string;
  readonly endAt: string;
  readonly lifecycle: { readonly onTimeout: 'pause' | 'kill'; readonly autoResume: boolean };
}

/** Asserts that a sandbox ends this long after now. */
export function assertEndsIn({ endAt }: Pick<ShownSandbox, 'endAt'>, ms: number): void {
  const left = Date.parse(endAt) - Date.now();
  assert.ok(Math.abs(left - ms) < SLACK_MS, `${left} ms are left, not ${ms}`);
}

/** Sends with the whole key of the first organization, unless a call names another one. */
export class E2bControl {
  readonly #tenants: Pick<Tenants, 'server' | 'keys' | 'call'>;

  constructor(tenants: Pick<Tenants, 'server' | 'keys' | 'call'>) {
    this.#tenants = tenants;
  }

  async send(method: string, path: string, body?: unknown, key = this.#tenants.keys.whole) {
    const headers = { 'x-api-key': key, ...(body !== undefined && { 'content-type': 'application/json' }) };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(`${this.#tenants.server.url}/e2b${path}`, { method, headers, ...sent });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text), headers: answer.headers };
  }

  /** Asks for a change of a sandbox, such as `pause`. */
  post(id: string, verb: string, body?: unknown, key?: string) {
    return this.send('POST', `/sandboxes/${id}/${verb}`, body, key);
  }

  async status(id: string, verb: string, body?: unknown): Promise<number> {
    return (await this.post(id, verb, body)).status;
  }

  /** Creates a sandbox, and returns its id. */
  async create(body: object = {}, key?: string): Promise<string> {
    const made = await this.send('POST', '/v2/sandboxes', { templateID: 'base', ...body }, key);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return made.body.sandboxID;
  }

  /** Creates a sandbox and pauses it. */
  async createPaused(body: object = {}): Promise<string> {
    const id = await this.create(body);
    assert.equal(await this.status(id, 'pause'), 204);
    return id;
  }

  async show(id: string): Promise<ShownSandbox> {
    return (await this.send('GET', `/sandboxes/${id}`)).body;
  }

  async state(id: string): Promise<ShownSandbox['state']> {
    return (await this.show(id)).state;
  }

  /** Returns the sandbox as `/v1` shows it. */
  async ofV1(id: string): Promise<Sandbox> {
    return (await this.#tenants.call(this.#tenants.keys.whole, 'GET', `/v1/sandboxes/${id}`)).body.sandbox;
  }
}
