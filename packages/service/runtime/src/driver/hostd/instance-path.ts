import type { InstanceName } from '../runtime-driver.ts';

/** Returns the path of an instance in hostd's protocol. */
export function pathOf({ sandboxId, generation }: InstanceName): string {
  return `/instances/${encodeURIComponent(sandboxId)}/${generation}`;
}
