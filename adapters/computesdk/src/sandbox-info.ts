import type { Sandbox, SandboxStatus } from '@cloche/sdk';
import type { SandboxInfo } from '@computesdk/provider';

/** Every other status is `running` for ComputeSDK: the sandbox accepts work, or will do so soon. */
const ENDED: Partial<Record<SandboxStatus, SandboxInfo['status']>> = {
  expiring: 'stopped',
  destroyed: 'stopped',
  failed: 'error',
};

/** Asks the service for the current state. */
export async function sandboxInfo(sandbox: Sandbox): Promise<SandboxInfo> {
  const { id, status, createdAt, ttlMs, metadata } = (await sandbox.refresh()).info;
  const base = { id, provider: 'cloche', createdAt: new Date(createdAt), timeout: ttlMs, metadata };
  return { ...base, status: ENDED[status] ?? 'running' };
}
