import { globSync, readFileSync } from 'node:fs';
import type { TestService } from './service.ts';

/**
 * Returns the processor time in milliseconds that the kernel has counted in the control group of a sandbox's instance.
 */
export function groupTimeMs(service: TestService, sandboxId: string): number {
  const group = `cloche-${service.installationId}/${service.instanceKey(sandboxId)}`;
  const [v1] = globSync(`/sys/fs/cgroup/cpu*/${group}/cpuacct.usage`);
  if (v1 !== undefined) return Number(readFileSync(v1, 'utf8')) / 1e6;
  const stat = readFileSync(`/sys/fs/cgroup/${group}/cpu.stat`, 'utf8');
  return Number(/usage_usec (\d+)/.exec(stat)?.[1]) / 1e3;
}
