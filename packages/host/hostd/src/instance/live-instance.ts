import { isProcessAlive } from '../kernel/process-identity.ts';
import type { InstanceKey } from './instance-key.ts';
import type { InstanceRecords, LiveRecord } from './instance-records.ts';

/** Returns the record of an instance that a sandbox has and whose first process lives. */
export function findLive(records: InstanceRecords, key: InstanceKey): LiveRecord | undefined {
  const record = records.read(key);
  return record?.status === 'live' && isProcessAlive(record.init) ? record : undefined;
}
