import { chmodSync, chownSync, closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';
import type { Fifo } from '../kernels/fifo.ts';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import { FrameDecoder } from '../kernels/frames.ts';
import { readHello } from '../kernels/kernel-messages.ts';
import type { User } from '../memory/memory-readings.ts';
import { findStart, ownerOf } from '../processes/process-tree.ts';

/** Longest time between a kernel's connection and its hello. */
const HELLO_MS = 5_000;
/** Most kernels that may wait for a context, because each takes memory. */
const MAX_SPARES = 2;
const MAX_CONNECTIONS = 64;
const MAX_HELLO_BYTES = 1024;

type Taker = (kernel: ForkedKernel | undefined) => void;

/**
 * Accepts forked kernels at `kernels.sock`, in a folder of root. Kernels are given to waiting requests in the order of
 * arrival. A kernel may arrive late, never, or die while it waits. This is no `Semaphore` or `KeyedQueue`: those limit
 * how many callers proceed; here each caller receives one kernel, and kernels can also wait for callers.
 */
export class KernelArrivals {
  readonly #folder: string;
  readonly #spares: ForkedKernel[] = [];
  readonly #takers: Taker[] = [];
  readonly #server: Server;
  #user: User | undefined;
  /** Called when a kernel has arrived that no request waits for. */
  onSpare: () => void = () => undefined;

  /** @param folder on a file system in memory, so that kernels can connect when the disk is full. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#server = createServer((socket) => this.#greet(socket));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /**
   * Listens for kernels. Throws if the folder cannot be created; then no kernel arrives. With `user`, processes of
   * that user may connect, with pipes that were made for them. Otherwise only a process that was root until then can
   * connect.
   */
  listen(user?: User): void {
    const mode = user === undefined ? 0o700 : 0o711;
    mkdirSync(this.#folder, { mode, recursive: true });
    chmodSync(this.#folder, mode);
    const path = join(this.#folder, 'kernels.sock');
    rmSync(path, { force: true });
    this.#user = user;
    this.#server.on('error', () => undefined);
    this.#server.listen(path, () => user && chownSync(path, user.uid, user.gid));
    this.#server.unref();
  }

  /** Returns a waiting kernel, or one that arrives within `waitMs`; otherwise undefined. */
  take(waitMs: number): Promise<ForkedKernel | undefined> {
    for (let spare = this.#spares.shift(); spare !== undefined; spare = this.#spares.shift()) {
      if (!spare.socket.destroyed) return Promise.resolve(spare);
    }
    if (waitMs <= 0) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const taker: Taker = (kernel) => {
        clearTimeout(timer);
        resolve(kernel);
      };
      const timer = setTimeout(() => {
        this.#takers.splice(this.#takers.indexOf(taker), 1);
        resolve(undefined);
      }, waitMs);
      this.#takers.push(taker);
    });
  }

  /** Ends the wait of the oldest request without a kernel. */
  giveUp(): void {
    this.#takers.shift()?.(undefined);
  }

  close(): void {
    this.#server.close();
    for (const { socket } of this.#spares) socket.destroy();
  }

  #greet(socket: Socket): void {
    const frames = new FrameDecoder();
    const timer = setTimeout(() => socket.destroy(), HELLO_MS);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => clearTimeout(timer));
    let bytes = 0;
    const read = (chunk: Buffer) => {
      try {
        bytes += chunk.length;
        frames.push(chunk);
        if (bytes > MAX_HELLO_BYTES) throw new Error('the hello is too long');
        const frame = frames.take();
        if (frame === undefined) return;
        clearTimeout(timer);
        socket.off('data', read);
        this.#arrive(socket, frame.message);
      } catch {
        socket.destroy();
      }
    };
    socket.on('data', read);
  }

  #arrive(socket: Socket, hello: unknown): void {
    const { kernelId, pid } = readHello(hello);
    // Read before the owner. If the pid is reused in between, this start time shows it.
    const startTicks = findStart(pid);
    // SECURITY: the agent kills this process in the end, so it must be one that the sender itself may kill
    // (e2e/security/own-zygote.test.ts).
    if (this.#user !== undefined && ownerOf(pid) !== this.#user.uid)
      throw new Error('the process does not belong to the user');
    const fifos = STANDARD_STREAMS.map((stream) => openFifo(join(this.#folder, `${kernelId}.${stream}`)));
    const taker = this.#takers.shift();
    if (startTicks === undefined || (taker === undefined && this.#spares.length >= MAX_SPARES)) {
      for (const { readFd } of fifos) closeSync(readFd);
      socket.destroy();
      return;
    }
    const kernel = { pid, startTicks, socket, fifos };
    if (taker) taker(kernel);
    else this.#keep(kernel);
  }

  #keep(kernel: ForkedKernel): void {
    this.#spares.push(kernel);
    kernel.socket.once('close', () => {
      const index = this.#spares.indexOf(kernel);
      if (index < 0) return;
      this.#spares.splice(index, 1);
      for (const { readFd } of kernel.fifos) closeSync(readFd);
    });
    this.onSpare();
  }
}

/** Opens a pipe that the kernel has created and removes its name. The kernel holds the other end already. */
function openFifo(path: string): Fifo {
  const readFd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  rmSync(path);
  return { readFd, writeFd: -1 };
}
