import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jupyterPython } from './jupyter-environment.ts';
import { TimingProcess } from './timing-process.ts';

const execute = promisify(execFile);
const VERSIONS = `import importlib.metadata as m, platform
print('Python', platform.python_version(), *(f'{n} {m.version(n)}' for n in ('jupyter_client', 'ipykernel', 'jupyter_kernel_gateway')))`;

/** Kernels of ipykernel, driven by a jupyter_client program that measures the times itself. */
export class JupyterPeer implements AsyncDisposable {
  readonly version: string;
  readonly #process: TimingProcess;

  private constructor(process: TimingProcess, version: string) {
    this.#process = process;
    this.version = version;
  }

  static async start(say: (line: string) => void): Promise<JupyterPeer> {
    const program = new URL('./jupyter_client_peer.py', import.meta.url).pathname;
    const python = await jupyterPython(say);
    return new JupyterPeer(
      new TimingProcess(python, [program]),
      (await execute(python, ['-c', VERSIONS])).stdout.trim(),
    );
  }

  /** Resolves with the milliseconds from the start of a kernel to its first result. */
  startKernel(name: string, code: string): Promise<number> {
    return this.#process.time({ act: 'start', name, code });
  }

  execute(name: string, code: string): Promise<number> {
    return this.#process.time({ act: 'execute', name, code });
  }

  stopKernel(name: string): Promise<number> {
    return this.#process.time({ act: 'stop', name });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}
