import type { ResolvedResources } from './sandbox.ts';

/** Operator settings for sandboxes. Times are in milliseconds. */
export interface SandboxSettings {
  readonly defaultResources: ResolvedResources;
  readonly maxResources: ResolvedResources;
  /** Longest time from launch to ready; a slower launch is undone. */
  readonly launchTimeoutMs: number;
  readonly reconcileIntervalMs: number;
  /** How long the records of ended sandboxes are kept. */
  readonly recordRetentionMs: number;
  /** Longest time and default for which a pause may last. */
  readonly pauseRetentionMs: number;
  /** How long events are kept. */
  readonly eventRetentionMs: number;
}
