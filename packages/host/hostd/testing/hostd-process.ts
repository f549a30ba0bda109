import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Instance, LaunchSpec } from '@cloche/protocol';
import type { TestInstallation } from './installation.ts';

/** Command of a sandbox in tests that need no agent. */
export const IDLE_COMMAND = ['/bin/sleep', 'infinity'];

export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of every kind of answer
  body: any;
}

/** A hostd process as in production, except for the command of its sandboxes. */
export class HostdProcess implements AsyncDisposable {
  readonly #socketPath: string;
  readonly #child: ChildProcess;

  private constructor(socketPath: string, child: ChildProcess) {
    this.#socketPath = socketPath;
    this.#child = child;
  }

  /**
   * Resolves when hostd serves.
   * @param confinement program, with arguments, that starts hostd with fewer privileges
   */
  static async start(
    { environment, config }: TestInstallation,
    command = IDLE_COMMAND,
    confinement: readonly string[] = [],
  ): Promise<HostdProcess> {
    const entry = join(import.meta.dirname, 'hostd-with-command.ts');
    const unshare = ['unshare', '--mount', '--propagation', 'private', '--', process.execPath, entry, ...command];
    const [program = '', ...args] = [...confinement, ...unshare];
    const child = spawn(program, args, {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    let log = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        log += chunk;
      });
    }
    const serving = once(child, 'message').then(() => true);
    const ended = once(child, 'exit').then(() => false);
    if (!(await Promise.race([serving, ended]))) throw new Error(`hostd ended before it served:\n${log}`);
    return new HostdProcess(config.run.hostdSocket, child);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  launch(sandboxId: string, spec: LaunchSpec, signal?: AbortSignal): Promise<Answer> {
    return this.call('PUT', `/instances/${sandboxId}/1`, spec, signal);
  }

  /** Resolves when nothing of the sandbox is left on the host. */
  stop(sandboxId: string, generation = 1): Promise<Answer> {
    return this.call('DELETE', `/instances/${sandboxId}/${generation}?until=gone`);
  }

  async list(): Promise<Instance[]> {
    const { body } = await this.call('GET', '/instances');
    return body.instances;
  }

  async call(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
    const outgoing = request({
      socketPath: this.#socketPath,
      method,
      path,
      ...(signal && { signal }),
      ...(body !== undefined && { headers: { 'content-type': 'application/json' } }),
    });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const [incoming] = await once(outgoing, 'response');
    const answer = await text(incoming);
    return { status: incoming.statusCode, body: answer === '' ? undefined : JSON.parse(answer) };
  }

  /** Sends SIGTERM and resolves when the process has ended. */
  async close(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Stops the sandboxes and hostd, if it still runs: leftovers of a failed test would make others fail. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded()) return;
    for (const { sandboxId, generation } of await this.list()) await this.stop(sandboxId, generation);
    await this.close();
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.#hasEnded()) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }
}
