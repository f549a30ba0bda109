import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { findFreePort } from '@cloche/node-support';
import { HttpClient } from '../http-client.ts';
import { jupyterPython } from './jupyter-environment.ts';

const START_MS = 30_000;
/** Ends the gateway when the benchmark ends in any way. */
const WITH_US = ['--pdeathsig', 'TERM', '--'];

/** Jupyter Kernel Gateway, which serves kernels to many clients: HTTP, and a WebSocket for each conversation. */
export class KernelGatewayPeer implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #http: HttpClient;
  readonly #port: number;

  private constructor(child: ChildProcess, http: HttpClient, port: number) {
    this.#child = child;
    this.#http = http;
    this.#port = port;
  }

  static async start(say: (line: string) => void): Promise<KernelGatewayPeer> {
    const python = await jupyterPython(say);
    const port = await findFreePort();
    const args = ['-m', 'kernel_gateway', '--KernelGatewayApp.ip=127.0.0.1', `--KernelGatewayApp.port=${port}`];
    const child = spawn('setpriv', [...WITH_US, python, ...args], { stdio: 'ignore' });
    const http = new HttpClient({ host: '127.0.0.1', port });
    const deadline = performance.now() + START_MS;
    while (!(await http.call('GET', '/api').catch(() => undefined))) {
      if (performance.now() > deadline) throw new Error('the kernel gateway does not serve');
      await delay(50);
    }
    return new KernelGatewayPeer(child, http, port);
  }

  async startKernel(): Promise<string> {
    return (await this.#http.call('POST', '/api/kernels', { name: 'python3' })).body.id;
  }

  async connect(kernelId: string): Promise<KernelConversation> {
    const socket = new WebSocket(`ws://127.0.0.1:${this.#port}/api/kernels/${kernelId}/channels`);
    await once(socket, 'open');
    return new KernelConversation(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The gateway ends its kernels too.
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
    this.#http.close();
  }
}

export class KernelConversation {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, () => void>();

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const { parent_header, header, msg_type, content } = JSON.parse(String(data));
      if ((msg_type ?? header?.msg_type) !== 'status' || content.execution_state !== 'idle') return;
      this.#waiting.get(parent_header.msg_id)?.();
    });
  }

  /** Resolves when the kernel is idle again. */
  async execute(code: string): Promise<void> {
    const id = randomUUID();
    const idle = new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    const header = { msg_id: id, msg_type: 'execute_request', username: '', session: id, date: '', version: '5.3' };
    const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
    this.#socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: 'shell' }));
    await idle;
    this.#waiting.delete(id);
  }

  close(): void {
    this.#socket.close();
  }
}
