import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { FrameDecoder } from '../frames.ts';

export interface ArrivingKernel {
  kernelId?: string;
  pid?: number;
  /** Whether it has made its pipes. */
  pipes?: boolean;
}

/** What the agent sends to a kernel, message by message. */
export async function* messagesOf(kernel: Socket) {
  const frames = new FrameDecoder();
  for await (const chunk of kernel) {
    frames.push(chunk);
    // biome-ignore lint/suspicious/noExplicitAny: asserted on, field by field
    for (let frame = frames.take(); frame; frame = frames.take()) yield frame.message as any;
  }
}

let count = 0;

/** Does at `place` what a kernel does once it is inside its sandbox; this very process plays it. */
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
