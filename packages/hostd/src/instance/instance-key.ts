import { randomBytes } from 'node:crypto';

/**
 * Names one instance in every namespace of the host: folders, cgroups, containers, slots. One that is launched for a
 * sandbox has the sandbox's name; one that is launched ahead has a name of its own, and keeps it when it is claimed.
 */
export type InstanceKey = string & { readonly brand: 'InstanceKey' };

export interface InstanceName {
  sandboxId: string;
  generation: number;
}

/** The only ids that hostd takes, so that a name can never be a path. */
export const SANDBOX_ID_PATTERN = '^sbx_[A-Za-z0-9]{1,40}$';

const KEY = /^(sbx_[A-Za-z0-9]{1,40}-[1-9][0-9]{0,8}|pool_[0-9a-f]{16})$/;

/** That of an instance that is launched for this very incarnation. */
export function instanceKey({ sandboxId, generation }: InstanceName): InstanceKey {
  const key = `${sandboxId}-${generation}`;
  if (!isInstanceKey(key)) throw new Error(`not the name of an instance: ${key}`);
  return key;
}

/** A fresh one, for an instance that is nobody's yet. */
export function pooledInstanceKey(): InstanceKey {
  return `pool_${randomBytes(8).toString('hex')}` as InstanceKey;
}

export function isInstanceKey(text: string): text is InstanceKey {
  return KEY.test(text);
}
