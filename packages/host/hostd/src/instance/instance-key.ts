import { randomBytes } from 'node:crypto';

/**
 * Names one instance in every namespace of the host: folders, cgroups, containers, slots. An instance launched for a
 * sandbox is named after the sandbox. An instance launched ahead has a name of its own, and keeps it when it is
 * claimed.
 */
export type InstanceKey = string & { readonly brand: 'InstanceKey' };

export interface InstanceName {
  sandboxId: string;
  generation: number;
}

/** Pattern of the only ids that hostd accepts, so that a name can never be a path. */
export const SANDBOX_ID_PATTERN = '^sbx_[A-Za-z0-9]{1,40}$';

const KEY = /^(sbx_[A-Za-z0-9]{1,40}-[1-9][0-9]{0,8}|pool_[0-9a-f]{16})$/;

/** Returns the key of an instance that is launched for this incarnation. */
export function instanceKey({ sandboxId, generation }: InstanceName): InstanceKey {
  const key = `${sandboxId}-${generation}`;
  if (!isInstanceKey(key)) throw new Error(`${key} is not the name of an instance`);
  return key;
}

/** Returns a new key for an instance that no sandbox has claimed. */
export function pooledInstanceKey(): InstanceKey {
  return `pool_${randomBytes(8).toString('hex')}` as InstanceKey;
}

export function isInstanceKey(text: string): text is InstanceKey {
  return KEY.test(text);
}
