import type { SandboxSettings } from '../src/features/sandbox-records/sandbox-settings.ts';

export const SETTINGS: SandboxSettings = {
  defaultResources: { cpu: 1, memoryMb: 512, diskMb: 512, pids: 128 },
  maxResources: { cpu: 2, memoryMb: 1024, diskMb: 1024, pids: 256 },
  launchTimeoutMs: 30_000,
  reconcileIntervalMs: 60_000,
  recordRetentionMs: 30 * 86_400_000,
  eventRetentionMs: 30 * 86_400_000,
  pauseRetentionMs: 30 * 86_400_000,
  pauseAfterIdleMs: undefined,
  idleCpuPercent: 2,
  wakeTimeoutMs: 10_000,
};
