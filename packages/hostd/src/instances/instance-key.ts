/** Names one incarnation of a sandbox in every namespace of the host: folders, cgroups, containers, slots. */
export type InstanceKey = string & { readonly brand: 'InstanceKey' };

export interface InstanceName {
  sandboxId: string;
  generation: number;
}

/** The only ids that hostd takes, so that a name can never be a path. */
export const SANDBOX_ID_PATTERN = '^sbx_[A-Za-z0-9]{1,40}$';

const KEY = /^(sbx_[A-Za-z0-9]{1,40})-([1-9][0-9]{0,8})$/;

export function instanceKey({ sandboxId, generation }: InstanceName): InstanceKey {
  const key = `${sandboxId}-${generation}`;
  if (!isInstanceKey(key)) throw new Error(`not the name of an instance: ${key}`);
  return key;
}

export function isInstanceKey(text: string): text is InstanceKey {
  return KEY.test(text);
}
