import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { HttpClient } from '../http-client.ts';

/**
 * Minimal HTTP service of this kind: answers a POST of the same JSON with an empty object. With the program `echo`, the
 * minimal service that forwards the request to an agent and a kernel, and returns the answer.
 */
export class FastifyPeer implements AsyncDisposable {
  readonly http: HttpClient;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.http = new HttpClient({ host: '127.0.0.1', port });
  }

  static async start(program: 'fastify' | 'echo' = 'fastify'): Promise<FastifyPeer> {
    const path = new URL(`./${program}-server.ts`, import.meta.url).pathname;
    const child = spawn(process.execPath, [path], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const [port] = await once(child, 'message');
    return new FastifyPeer(child, port);
  }

  async post(): Promise<void> {
    await this.http.call('POST', '/', { code: '1+1', language: 'python' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.http.close();
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}
