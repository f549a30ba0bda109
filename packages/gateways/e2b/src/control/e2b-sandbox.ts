import { SANDBOX_STATUS_FACTS } from '@cloche/contract';
import type { SandboxInfo } from '@cloche/sdk';
import { issueAccessToken } from '../access-token.ts';
import type { E2bDeps } from '../e2b-deps.ts';

/** Newest version of E2B's daemon whose calls are all answered. */
export const ENVD_VERSION = '0.6.4';
/** Value of a field that E2B's clients require but do not use. */
const CLIENT_ID = 'cloche';

type Issuer = Pick<E2bDeps, 'seal' | 'previews'>;

/** Returns the answer to a creation and to a connection. */
export function connection(sandbox: SandboxInfo, apiKey: string, { seal, previews }: Issuer) {
  const token = issueAccessToken({ apiKey, sandboxId: sandbox.id }, seal);
  return {
    templateID: sandbox.templateSlug,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
    envdAccessToken: token,
    // The clients of the code interpreter send this token for contexts.
    trafficAccessToken: token,
    // For `getHost`.
    domain: previews.domain(),
  };
}

/** Returns an entry of a list. */
export function listed(sandbox: SandboxInfo) {
  return {
    templateID: sandbox.templateSlug,
    alias: sandbox.templateSlug,
    sandboxID: sandbox.id,
    clientID: CLIENT_ID,
    startedAt: sandbox.sessionStartedAt,
    // Of a paused sandbox, when it was paused.
    endAt: sandbox.paused?.at ?? sandbox.expiresAt,
    cpuCount: Math.max(1, Math.round(sandbox.resources.cpu)),
    memoryMB: sandbox.resources.memoryMb,
    diskSizeMB: sandbox.resources.diskMb,
    metadata: sandbox.metadata,
    state: sandbox.paused ? 'paused' : 'running',
    envdVersion: ENVD_VERSION,
  };
}

/** Returns the details of one sandbox. */
export async function detailed(sandbox: SandboxInfo, apiKey: string, issuer: Issuer) {
  const { envdAccessToken, domain } = connection(sandbox, apiKey, issuer);
  const allowPublicTraffic = await issuer.previews.isPublic(sandbox.id);
  const { mode, hosts = [] } = sandbox.networkPolicy;
  const allowInternetAccess = mode !== 'deny-all';
  const network = {
    allowOut: mode === 'allowlist' ? hosts : [],
    allowPublicTraffic,
    denyOut: mode === 'denylist' ? hosts : allowInternetAccess && mode !== 'allowlist' ? [] : ['0.0.0.0/0'],
  };
  return { ...listed(sandbox), envdAccessToken, domain, allowInternetAccess, network, lifecycle: lifecycleOf(sandbox) };
}

function lifecycleOf({ pause: { onExpiry, wake } }: SandboxInfo) {
  return { onTimeout: onExpiry ? 'pause' : 'kill', autoResume: wake !== 'explicit' };
}

/** Returns whether E2B would list the sandbox: it has no state for one that is ending. */
export function isLive({ status }: SandboxInfo): boolean {
  return !SANDBOX_STATUS_FACTS[status].isOver;
}
