import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** What that process has in memory. */
export function residentBytes(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

export function descriptorCount(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Files below `folder` that the process holds open, also those that have no name any more. */
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

/** Children of the agent that are kernels. */
export function kernelsOf(pid: number | undefined): number {
  return childrenOf(pid).filter((child) => commandLine(child).includes('cloche_kernel')).length;
}

export function childrenOf(pid: number | undefined): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
}

/** Processes that sleep for just this long. */
export function sleepers(seconds: string): number {
  return readdirSync('/proc').filter((name) => commandLine(name) === `sleep\0${seconds}\0`).length;
}

/** Its arguments, each followed by a zero byte; empty when it is gone. */
export function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
