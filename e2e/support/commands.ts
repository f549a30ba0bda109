/** Commands of one sandbox, through the API. */
import assert from 'node:assert/strict';
import type { Command, CommandEvent, CommandLogEntry, SandboxId } from '@cloche/contract';
import { createParser } from 'eventsource-parser';
import type { Answer } from './api.ts';
import type { TestService } from './service.ts';

type Body = Record<string, unknown>;

/** Frame of a command's stream, with its id. */
interface Frame {
  readonly id: string | undefined;
  readonly event: CommandEvent;
}

export class SandboxCommands {
  readonly path: string;
  readonly sandboxId: SandboxId;
  readonly #service: TestService;

  constructor(service: TestService, sandboxId: SandboxId) {
    this.sandboxId = sandboxId;
    this.#service = service;
    this.path = `/v1/sandboxes/${sandboxId}/commands`;
  }

  post(body: Body, key: string | 'auto' = 'auto'): Promise<Answer> {
    return this.#service.api.post(this.path, body, key);
  }

  async run(command: string | string[], options: Body = {}): Promise<Command> {
    const answer = await this.post({ command, ...options });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return answer.body.command;
  }

  start(command: string | string[], options: Body = {}): Promise<Command> {
    return this.run(command, { background: true, ...options });
  }

  async get(id: string, query = ''): Promise<Command> {
    return (await this.#service.api.get(`${this.path}/${id}${query}`)).body.command;
  }

  async list(): Promise<Command[]> {
    return (await this.#service.api.get(this.path)).body.data;
  }

  kill(id: string, body?: Body): Promise<Answer> {
    return this.#service.api.post(`${this.path}/${id}/kill`, body);
  }

  async logs(id: string, limit = 1000): Promise<CommandLogEntry[]> {
    const all: CommandLogEntry[] = [];
    for (let afterSeq = 0; ; ) {
      const { body } = await this.#service.api.get(`${this.path}/${id}/logs?afterSeq=${afterSeq}&limit=${limit}`);
      all.push(...body.data);
      if (!body.hasMore) return all;
      afterSeq = body.nextSeq;
    }
  }

  async *follow(id: string, lastEventId?: string): AsyncGenerator<Frame> {
    const headers = {
      authorization: `Bearer ${this.#service.apiKey}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    };
    const response = await fetch(new URL(`${this.path}/${id}/stream`, this.#service.url), { headers });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    const arrived: Frame[] = [];
    const parser = createParser({ onEvent: (frame) => arrived.push({ id: frame.id, event: JSON.parse(frame.data) }) });
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      yield* arrived.splice(0);
    }
  }

  async printed(id: string, text: string): Promise<void> {
    for await (const { event } of this.follow(id)) {
      if (event.type === 'log' && event.data.data.includes(text)) return;
    }
    throw new Error(`it ended without ${text}`);
  }
}
