import { type ChildProcess, spawn } from 'node:child_process';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import type { ForkedKernel } from './forked-kernels.ts';
import type { KernelCommand } from './kernel-launch.ts';
import type { KernelLink } from './kernel-link.ts';

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
  /** One that was forked into the sandbox, if there is one; else a kernel is started by `command`. Awaited first. */
  takeForked: () => Promise<ForkedKernel | undefined>;
  /** Told that the one that was forked is not what one that is started now would be. */
  onUnfit?: () => void;
  /** Told that it begins to run a cell that takes a moment, and that it has ended one. */
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
