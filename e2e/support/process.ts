import { readFileSync } from 'node:fs';

/** Returns the memory of a process that is now in RAM. */
export function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

/** Returns the API key that a server got in its environment. */
export function firstKeyOf(serverPid: number): string {
  const environment = readFileSync(`/proc/${serverPid}/environ`, 'utf8');
  const [, key] = /(?:^|\0)CLOCHE_BOOTSTRAP_API_KEY=([^\0]+)/.exec(environment) ?? [];
  if (key === undefined) throw new Error(`process ${serverPid} got no key`);
  return key;
}
