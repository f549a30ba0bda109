import { type ChildProcessByStdio, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { promisify } from 'node:util';
import { jupyterPython } from './jupyter-environment.ts';

const execute = promisify(execFile);
const VERSIONS = `import importlib.metadata as m, platform
print('Python', platform.python_version(), *(f'{n} {m.version(n)}' for n in ('jupyter_client', 'ipykernel', 'jupyter_kernel_gateway')))`;

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** Kernels of ipykernel, driven by a jupyter_client program that measures the times itself. */
export class JupyterPeer implements AsyncDisposable {
  readonly version: string;
  readonly #child: Child;
  readonly #answers: AsyncIterator<string>;
  readonly #lines: Interface;

  private constructor(child: Child, version: string) {
    this.#child = child;
    this.version = version;
    this.#lines = createInterface({ input: child.stdout });
    this.#answers = this.#lines[Symbol.asyncIterator]();
  }

  static async start(say: (line: string) => void): Promise<JupyterPeer> {
    const program = new URL('./jupyter_client_peer.py', import.meta.url).pathname;
    const python = await jupyterPython(say);
    const child = spawn(python, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    return new JupyterPeer(child, (await execute(python, ['-c', VERSIONS])).stdout.trim());
  }

  /** Resolves with the milliseconds from the start of a kernel to its first result. */
  startKernel(name: string, code: string): Promise<number> {
    return this.#ask({ act: 'start', name, code });
  }

  execute(name: string, code: string): Promise<number> {
    return this.#ask({ act: 'execute', name, code });
  }

  stopKernel(name: string): Promise<number> {
    return this.#ask({ act: 'stop', name });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin.end();
    await ended;
    this.#lines.close();
  }

  async #ask(command: object): Promise<number> {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error('jupyter_client ended');
    return JSON.parse(value).ms;
  }
}
