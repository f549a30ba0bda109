import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Returns the resident memory of a process, in bytes. */
export function residentBytes(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

export function descriptorCount(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Returns the files below `folder` that a process holds open, including deleted ones. */
export function descriptorsOf(pid: number | undefined, folder: string): string[] {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return links.filter((target) => target.startsWith(folder));
}

/** Returns the number of kernels among the agent's children. */
export function kernelsOf(pid: number | undefined): number {
  return childrenOf(pid).filter((child) => commandLine(child).includes('cloche_kernel')).length;
}

export function childrenOf(pid: number | undefined): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
}

/** Returns the number of `sleep` processes with that exact argument. */
export function sleepers(seconds: string): number {
  return readdirSync('/proc').filter((name) => commandLine(name) === `sleep\0${seconds}\0`).length;
}

/** Returns the arguments of a process, each followed by a zero byte; empty if it has ended. */
export function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
