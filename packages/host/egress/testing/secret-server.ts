import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import type { SecretQuestion, SecretQuestions } from '@cloche/protocol';

/** Stands in for the server: gives values by placeholder, to one host. */
export class SecretServer {
  readonly values = new Map<string, string>();
  readonly host: string;
  /** All messages, in order. */
  readonly asked: SecretQuestions[] = [];
  /** If set, answers wait for it. */
  gate: Promise<void> | undefined;
  status = 200;
  #server = createServer();
  readonly #socketPath: string;

  constructor(socketPath: string, host: string) {
    this.#socketPath = socketPath;
    this.host = host;
  }

  async start(): Promise<void> {
    this.#server = createServer(async (request, response) => {
      const asked = (await json(request)) as SecretQuestions;
      this.asked.push(asked);
      await this.gate;
      const values = asked.questions.map((question) => this.#valueOf(question));
      response.writeHead(this.status).end(JSON.stringify({ values }));
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(this.#socketPath, resolve);
    await promise;
  }

  async stop(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    await promise;
  }

  #valueOf({ placeholder, host }: SecretQuestion): string | null {
    return host.kind === 'name' && host.name === this.host ? (this.values.get(placeholder) ?? null) : null;
  }
}
