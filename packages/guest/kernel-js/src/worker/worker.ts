/**
 * The kernel's second thread. It owns the socket to the agent, compiles cells and decides when a run is over. The main
 * thread runs user code and can be stuck in a loop at any time.
 */
import { workerData } from 'node:worker_threads';
import { KERNEL_SOCKET_FD } from '@cloche/protocol';
import type { WorkerSetup } from '../messages.ts';
import { moveOutOfReach } from './descriptors.ts';
import { FrameSocket } from './frame-socket.ts';
import { KernelSession } from './kernel-session.ts';
import { MainThread } from './main-thread.ts';

const setup = workerData as WorkerSetup;
const control = new Int32Array(setup.control);
const mainThread = new MainThread(setup.port, control);
const socket = new FrameSocket(moveOutOfReach(KERNEL_SOCKET_FD), {
  onFrame: (frame) => session.receive(frame),
  // Ends the kernel, because the agent has gone. Not by a message: the main thread can be in an endless loop.
  onClose: () => process.kill(process.pid, 'SIGKILL'),
});
const session = new KernelSession({ language: setup.language, mainThread, socket, control });
