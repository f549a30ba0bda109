import type { SandboxId } from '@cloche/contract';
import { factsOf } from '../sandbox-status/status-facts.ts';
import { type Activity, type SandboxRecord, toSandbox } from './sandbox.ts';

/** The activity in sandboxes at one moment, as all servers report it. */
export interface RecentActivity extends Activity {
  /** Undefined if no activity is known. */
  lastActiveAt(sandboxId: SandboxId): number | undefined;
  /** Whether a request uses the sandbox. What runs in it by itself is no use. */
  isInUse(sandboxId: SandboxId): boolean;
  /** Undefined if no use is known. */
  lastUsedAt(sandboxId: SandboxId): number | undefined;
}

/** Activity in sandboxes, whichever server of the database it goes through. */
export interface SharedActivity {
  of(sandboxIds: readonly SandboxId[]): RecentActivity | Promise<RecentActivity>;
}

/** Returns the sandboxes as clients see them now. */
export async function showSandboxes(records: readonly SandboxRecord[], activity: SharedActivity) {
  // Only a ready sandbox has activity.
  const seen = await activity.of(records.filter((record) => factsOf(record).isReady).map(({ id }) => id));
  return records.map((record) => toSandbox(record, seen));
}
