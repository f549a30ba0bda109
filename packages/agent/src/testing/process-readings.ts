import { readdirSync, readFileSync } from 'node:fs';

/** What that process has in memory. */
export function residentBytes(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

export function descriptorCount(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Children of the agent that are kernels. */
export function kernelsOf(pid: number | undefined): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return children.filter((child) => commandLine(child).includes('cloche_kernel')).length;
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
