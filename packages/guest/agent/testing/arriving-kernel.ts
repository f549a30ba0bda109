import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { FromKernel } from '@cloche/protocol';
import { encodeFrame, FrameDecoder } from '../src/kernels/frames.ts';

export interface ArrivingKernel {
  kernelId?: string;
  pid?: number;
  /** Whether the kernel has created its pipes. */
  pipes?: boolean;
}

/**
 * A kernel that is played by the test. It has a real process, which only sleeps, because the agent kills the process
 * of a kernel that failed.
 */
export class ScriptedKernel implements Disposable {
  readonly socket: Socket;
  readonly #process: ChildProcess;
  readonly #messages: ReturnType<typeof messagesOf>;

  private constructor(socket: Socket, process: ChildProcess) {
    this.socket = socket;
    this.#process = process;
    this.#messages = messagesOf(socket);
  }

  static async arriveAt(place: string): Promise<ScriptedKernel> {
    const process = spawn('sleep', ['600'], { detached: true });
    return new ScriptedKernel(await arriveAt(place, { pid: process.pid ?? 0 }), process);
  }

  /** Resolves with the agent's next message. */
  async next() {
    return (await this.#messages.next()).value;
  }

  send(message: FromKernel): void {
    this.socket.write(encodeFrame(message));
  }

  [Symbol.dispose](): void {
    this.#process.kill('SIGKILL');
  }
}

/** Yields the agent's messages to a kernel. */
async function* messagesOf(kernel: Socket) {
  const frames = new FrameDecoder();
  for await (const chunk of kernel) {
    frames.push(chunk);
    // biome-ignore lint/suspicious/noExplicitAny: asserted on, field by field
    for (let frame = frames.take(); frame; frame = frames.take()) yield frame.message as any;
  }
}

let count = 0;

/** Does what a forked kernel does to connect at `place`. By default the kernel's process is the test itself. */
export async function arriveAt(place: string, kernel: ArrivingKernel = {}): Promise<Socket> {
  count += 1;
  const { kernelId = `0000-${count}`, pid = process.pid, pipes = true } = kernel;
  if (pipes) execFileSync('mkfifo', [join(place, `${kernelId}.stdout`), join(place, `${kernelId}.stderr`)]);
  const socket = connect(join(place, 'kernels.sock'));
  await once(socket, 'connect');
  const hello = Buffer.from(JSON.stringify({ type: 'hello', kernelId, pid }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(hello.length);
  socket.resume().write(Buffer.concat([length, hello]));
  return socket;
}
