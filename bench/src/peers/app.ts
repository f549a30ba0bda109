import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { HttpClient } from '../http-client.ts';

/** Program that a sandbox runs for previews. */
export const APP_FILE = new URL('./app-server.mjs', import.meta.url).pathname;

/** Runs the same program on the host, without a proxy in front of it. */
export class AppPeer implements AsyncDisposable {
  readonly http: HttpClient;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.http = new HttpClient({ host: '127.0.0.1', port });
  }

  static async start(): Promise<AppPeer> {
    const child = spawn(process.execPath, [APP_FILE], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const [port] = await once(child, 'message');
    return new AppPeer(child, port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.http.close();
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}
