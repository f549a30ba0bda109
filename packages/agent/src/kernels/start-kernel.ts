import { type ChildProcess, spawn } from 'node:child_process';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import type { KernelLink } from './kernel-link.ts';

export interface KernelCommand {
  file: string;
  args: string[];
}

/** Where a kernel works. */
export interface KernelPlace {
  cwd: string;
  env: Readonly<Record<string, string>>;
}

export interface KernelSpec {
  command: KernelCommand;
  place: KernelPlace;
  uid: number;
  gid: number;
  group: KernelsGroup;
  /** Awaited first. Rejects when no kernel can be started. */
  untilPossible?: () => Promise<void>;
  /** Returns a forked kernel, if there is one; else a kernel is started by `command`. */
  takeForked?: () => Promise<ForkedKernel | undefined>;
  /** Called when the forked kernel is not what one that is started now would be. */
  onMismatch?: () => void;
  /** Called when the kernel begins to run a cell that takes a moment, and when it has ended one. */
  onBusy?: (busy: boolean) => void;
}

/** Its standard output and error go to `link`; its private socket is among its `stdio`. */
export function startKernel(
  { command, uid, gid }: KernelSpec,
  cwd: string,
  env: Record<string, string>,
  link: KernelLink,
): ChildProcess {
  try {
    return spawn(command.file, command.args, {
      cwd,
      env,
      uid,
      gid,
      // A session of its own, so that all of it can be found again.
      detached: true,
      stdio: ['ignore', ...link.writeFds, 'pipe'],
    });
  } finally {
    link.closeWriteEnds();
  }
}
