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
  /** Time without use after which a client's sandbox is paused if its creation says nothing of it; undefined: never. */
  readonly pauseAfterIdleMs: number | undefined;
  /** A sandbox whose processes use more of a core, on average, is not idle. In percent. */
  readonly idleCpuPercent: number;
  /** Longest wait of a request to a preview for the wake of its sandbox. */
  readonly wakeTimeoutMs: number;
  /** How long events are kept. */
  readonly eventRetentionMs: number;
}
