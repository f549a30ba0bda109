/** A sandbox that tests pause and wake, and what its host says of it. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import type { Sandbox, SandboxId } from '@cloche/contract';
import type { Answer } from './api.ts';
import type { TestService } from './service.ts';

export type PauseEvent = 'sandbox.paused' | 'sandbox.resumed';

/** Writes the number of its steps, and its longest time between two of them in seconds. */
export const COUNT = `import json, os, time
steps, gap, last = 0, 0, time.time()
while True:
    now = time.time()
    steps, gap, last = steps + 1, max(gap, now - last), now
    with open('/tmp/counting', 'w') as file: json.dump([steps, gap], file)
    os.replace('/tmp/counting', '/tmp/counted')
    time.sleep(0.01)
`;

export class PausedSandbox {
  readonly id: SandboxId;
  readonly path: string;
  readonly #service: TestService;

  constructor(service: TestService, id: SandboxId) {
    this.id = id;
    this.path = `/v1/sandboxes/${id}`;
    this.#service = service;
  }

  /** Creates a sandbox and resolves when it is ready. */
  static async create(service: TestService, body: Record<string, unknown> = {}): Promise<PausedSandbox> {
    return new PausedSandbox(service, (await service.api.readySandbox(body)).id);
  }

  async get(): Promise<Sandbox> {
    return (await this.#service.api.get(this.path)).body.sandbox;
  }

  async pause(body: object = {}): Promise<Sandbox> {
    return sandboxIn(await this.#service.api.post(`${this.path}/pause`, body));
  }

  async resume(): Promise<Sandbox> {
    return sandboxIn(await this.#service.api.post(`${this.path}/resume`, {}));
  }

  /** Returns the value of the last line of a cell. */
  async value(code: string): Promise<string | undefined> {
    return (await this.#service.api.run(this.id, code)).outputs[0]?.value as string | undefined;
  }

  async delete(): Promise<Sandbox> {
    return sandboxIn(await this.#service.api.delete(this.path));
  }

  /** Returns the types of the events of its pauses and wakes, oldest first. */
  async events(): Promise<PauseEvent[]> {
    const found: PauseEvent[] = [];
    for (let afterSeq = 0; ; ) {
      const query = `types=sandbox.paused,sandbox.resumed&afterSeq=${afterSeq}`;
      const { data, hasMore, nextSeq } = (await this.#service.api.get(`/v1/events?${query}`)).body;
      for (const { type, data: of } of data) if (of.sandbox.id === this.id) found.push(type);
      if (!hasMore) return found;
      afterSeq = nextSeq;
    }
  }

  /** Returns whether hostd has no record of its instance. */
  hasNoInstance(): boolean {
    try {
      this.#service.instanceKey(this.id);
      return false;
    } catch {
      return true;
    }
  }

  /** Opens a terminal, as a client does that shows what arrives. */
  openTerminal(): WebSocket {
    // The types of Node lack its option for headers.
    const headers = { headers: { authorization: `Bearer ${this.#service.apiKey}` } } as unknown as string[];
    return new WebSocket(`${this.#service.url.replace('http', 'ws')}${this.path}/pty`, headers);
  }

  /** Returns whether the kernel holds its processes. */
  isFrozen(): boolean {
    const group = `/sys/fs/cgroup/{,*/}cloche-${this.#service.installationId}/${this.#service.instanceKey(this.id)}`;
    const [file = assert.fail(`no freezer of ${group}`)] = globSync(`${group}/{freezer.state,cgroup.freeze}`);
    return ['FROZEN', '1'].includes(readFileSync(file, 'utf8').trim());
  }
}

function sandboxIn({ status, body }: Answer): Sandbox {
  assert.equal(status, 200, JSON.stringify(body));
  return body.sandbox;
}
