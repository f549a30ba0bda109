import {
  HarnessSandboxAuthenticationError,
  type HarnessV1NetworkSandboxSession,
  type HarnessV1SandboxProvider,
} from '@ai-sdk/harness';
import { type ClientOptions, Cloche, type CreateSandboxBody, isClocheError, type Sandbox } from '@cloche/sdk';
import { ClocheNetworkSession } from './network-session.ts';

type CreateOptions = NonNullable<Parameters<HarnessV1SandboxProvider['createSession']>[0]>;
type ResumeOptions = Parameters<NonNullable<HarnessV1SandboxProvider['resumeSession']>>[0];

/** Default of `url` and `apiKey`: `CLOCHE_URL` and `CLOCHE_API_KEY`. */
export interface ClocheSandboxSettings extends ClientOptions {
  /** A sandbox to use for every session. The caller creates and destroys it. */
  sandbox?: Sandbox | undefined;
  /** Fields of new sandboxes, such as `template` or `networkPolicy`. `ttlMs` may be a day at most. */
  create?: CreateSandboxBody | undefined;
  /** Ports that a harness may connect to; a harness with a bridge takes the first. Default: 3000. */
  ports?: readonly number[] | undefined;
}

const PROVIDER_ID = 'cloche-sandbox';
/** Label by which a later process finds the sandbox of a session. */
const LABEL = 'ai-sdk-session';
/** A sandbox cannot be created with a longer lifetime, but gets one afterwards. */
const LONGEST_FIRST_TTL_MS = 3_600_000;

/**
 * Makes the sandbox provider of a Cloche service for `HarnessAgent`. Sends nothing yet.
 *
 * ```ts
 * const agent = new HarnessAgent({ harness: claudeCode, sandbox: createClocheSandbox() });
 * ```
 */
export function createClocheSandbox(settings: ClocheSandboxSettings = {}): HarnessV1SandboxProvider {
  return {
    specificationVersion: 'harness-sandbox-v1',
    providerId: PROVIDER_ID,
    createSession: (options = {}) => authenticated(() => createSession(settings, options)),
    resumeSession: (options) => authenticated(() => resumeSession(settings, options)),
  };
}

async function createSession(
  { sandbox: existing, create = {}, ports = [3000], ...client }: ClocheSandboxSettings,
  { sessionId, abortSignal, onFirstCreate }: CreateOptions,
): Promise<HarnessV1NetworkSandboxSession> {
  abortSignal?.throwIfAborted();
  if (existing) return new ClocheNetworkSession(existing, { ports, ownership: 'caller' });
  const { ttlMs, metadata } = create;
  // Without the signal: a sandbox that is created all the same must be known to be destroyed.
  const sandbox = await new Cloche(client).sandboxes.create({
    ...create,
    ...(ttlMs !== undefined && { ttlMs: Math.min(ttlMs, LONGEST_FIRST_TTL_MS) }),
    ...(sessionId !== undefined && { metadata: { ...metadata, [LABEL]: sessionId } }),
  });
  try {
    abortSignal?.throwIfAborted();
    await sandbox.waitUntilReady({ signal: abortSignal });
    if (ttlMs !== undefined && ttlMs > LONGEST_FIRST_TTL_MS) await sandbox.setTtl(ttlMs, { signal: abortSignal });
    const ownership = sessionId === undefined ? 'session' : 'resumable-session';
    const session = new ClocheNetworkSession(sandbox, { ports, ownership });
    await onFirstCreate?.(session.restricted(), abortSignal === undefined ? {} : { abortSignal });
    return session;
  } catch (error) {
    await sandbox.kill().catch(() => undefined);
    throw error;
  }
}

async function resumeSession(
  { sandbox: existing, create: _, ports = [3000], ...client }: ClocheSandboxSettings,
  { sessionId, abortSignal }: ResumeOptions,
): Promise<HarnessV1NetworkSandboxSession> {
  abortSignal?.throwIfAborted();
  if (existing) return new ClocheNetworkSession(existing, { ports, ownership: 'caller' });
  const metadata = { [LABEL]: sessionId };
  const [newest] = await new Cloche(client).sandboxes.list({ metadata, signal: abortSignal });
  if (newest === undefined)
    throw new Error(
      `The sandbox of session "${sessionId}" has ended: start a new session, or set a longer \`create.ttlMs\`.`,
    );
  return new ClocheNetworkSession(newest, { ports, ownership: 'resumable-session' });
}

async function authenticated<Session>(work: () => Promise<Session>): Promise<Session> {
  try {
    return await work();
  } catch (cause) {
    if (!isClocheError(cause, 'missing_api_key', 'unauthorized', 'forbidden')) throw cause;
    throw new HarnessSandboxAuthenticationError({ message: cause.message, sandboxProviderId: PROVIDER_ID, cause });
  }
}
