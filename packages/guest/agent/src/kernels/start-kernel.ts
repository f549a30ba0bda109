import { type ChildProcess, spawn } from 'node:child_process';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import type { KernelLink } from './kernel-link.ts';

export interface KernelCommand {
  file: string;
  args: string[];
}

/** Working directory and environment of a kernel. */
export interface KernelSettings {
  cwd: string;
  env: Readonly<Record<string, string>>;
}

export interface KernelOptions {
  command: KernelCommand;
  place: KernelSettings;
  uid: number;
  gid: number;
  group: KernelsGroup;
  /** Awaited before the start. Rejects if no kernel can be started. */
  waitUntilPossible?: () => Promise<void>;
  /** Returns a forked kernel, if there is one. Otherwise `command` starts a kernel. */
  takeForked?: () => Promise<ForkedKernel | undefined>;
  /** Called when the forked kernel differs from one that would be started now. */
  onMismatch?: () => void;
  /** Called when the kernel begins a cell that takes a while, and when it has ended one. */
  onBusy?: (busy: boolean) => void;
}

/** Starts a kernel. Its standard output and error go to `link`; its private socket is among its `stdio`. */
export function startKernel(
  { command, uid, gid }: KernelOptions,
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
      // In its own session, by which all its processes can be found.
      detached: true,
      stdio: ['ignore', ...link.writeFds, 'pipe'],
    });
  } finally {
    link.closeWriteEnds();
  }
}
