import type { ResolvedResources } from './sandbox.ts';

/** What the operator decides about sandboxes. Times in milliseconds. */
export interface SandboxSettings {
  readonly defaultResources: ResolvedResources;
  readonly maxResources: ResolvedResources;
  /** Quota of an organization; undefined: as many as the host holds. */
  readonly maxLiveSandboxes: number | undefined;
  /** How long a launch may take until the sandbox is ready; one that takes longer is undone. */
  readonly launchTimeoutMs: number;
  readonly reconcileIntervalMs: number;
  /** How long the records of sandboxes are kept that have ended. */
  readonly recordRetentionMs: number;
}
