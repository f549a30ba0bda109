import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type AssignMessage, KERNEL_SOCKET_FD, type ToKernel } from '@cloche/protocol';
import { buildGuest } from '../src/guest/build-guest.ts';
import { encodeFrame, FrameDecoder } from '../src/kernels/frames.ts';
import { readKernelMessage } from '../src/kernels/kernel-messages.ts';
import { CACHE_DIR } from './test-cache.ts';

/** A Python kernel without an agent. The test sends its messages. */
export class PythonKernel implements AsyncDisposable {
  readonly #child;
  readonly #socket: Socket;
  readonly #frames = new FrameDecoder();

  private constructor(child: ReturnType<typeof spawn>) {
    this.#child = child;
    this.#socket = child.stdio[KERNEL_SOCKET_FD] as Socket;
    this.#socket.on('data', (chunk: Buffer) => this.#frames.push(chunk));
  }

  /** Starts a kernel and resolves when it is ready. */
  static async start(pythonPath = ''): Promise<PythonKernel> {
    const { guestDir } = await buildGuest({ cacheDir: CACHE_DIR });
    const child = spawn('/usr/bin/python3', [join(guestDir, 'python/cloche_kernel')], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
      env: { PATH: process.env.PATH, PYTHONPATH: pythonPath, HOME: '/nonexistent', PYTHONDONTWRITEBYTECODE: '1' },
    });
    const kernel = new PythonKernel(child);
    await kernel.next('ready');
    return kernel;
  }

  /** Sends all messages in one write. */
  send(...messages: (ToKernel | AssignMessage)[]): void {
    this.#socket.write(Buffer.concat(messages.map(encodeFrame)));
  }

  /** Resolves with the kernel's next message. Rejects if it has another type. */
  async next(type: string) {
    for (;;) {
      const frame = this.#frames.take();
      if (frame === undefined) {
        await once(this.#socket, 'data', { signal: AbortSignal.timeout(60_000) });
        continue;
      }
      const message = readKernelMessage(frame.message);
      if (message.type !== type) throw new Error(`${JSON.stringify(message)} is no ${type}`);
      return message;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }
}
