import { LIMITS, SANDBOX_STATUS_FACTS, type SandboxId } from '@cloche/contract';
import { orAbort } from '@cloche/node-support';
import { type Cloche, ClocheError, isClocheError } from '@cloche/sdk';
import { createSandbox } from './create-sandbox.ts';
import type { McpSession } from './session.ts';

/** A sandbox that a call has created ends when it is not used for this long. */
const IDLE_TIMEOUT_MS = 600_000;
/** A sandbox of a session that is used lives longer when it has less than this left. */
const EXTEND_BELOW_MS = LIMITS.createTtlDefaultMs / 2;

export interface UsedSandboxDeps {
  readonly cloche: Cloche;
  /** Undefined for a client without one. */
  readonly session: McpSession | undefined;
  readonly signal: AbortSignal;
}

/** Finds the sandbox of one call: the one that it names, or that of its session. */
export class UsedSandbox {
  readonly #deps: UsedSandboxDeps;
  #note: string | undefined;

  constructor(deps: UsedSandboxDeps) {
    this.#deps = deps;
  }

  /** Text for the client about a sandbox that this call has created. */
  get note(): string | undefined {
    return this.#note;
  }

  /**
   * Returns the sandbox with the id `named`. Without it, returns that of the session, which is created at its first use.
   *
   * @param isForOne whether a client without a session gets a sandbox for this call alone
   * @throws {ClocheError} `invalid_request` for a client that must name a sandbox
   */
  async id(named: string | undefined, isForOne = false): Promise<SandboxId> {
    const { cloche, session, signal } = this.#deps;
    if (named !== undefined) return named as SandboxId;
    if (session) return this.#ofSession(session);
    if (!isForOne) {
      const how = 'give the id that run_code, command_run or sandbox_create has returned.';
      throw new ClocheError('invalid_request', `sandboxId is missing, and this client has no session: ${how}`);
    }
    const { id } = await createSandbox(cloche, { idleTimeoutMs: IDLE_TIMEOUT_MS }, signal);
    this.#note =
      `This call has created the sandbox ${id}. Give "sandboxId": "${id}" to the following calls to use its files and ` +
      'variables. It ends when it is not used for ten minutes.';
    return id;
  }

  async #ofSession(session: McpSession): Promise<SandboxId> {
    const earlier = session.sandboxId as SandboxId | undefined;
    if (earlier !== undefined && (await this.#isUsable(earlier))) return earlier;
    const id = await orAbort(this.#create(session, earlier), this.#deps.signal);
    this.#note =
      earlier === undefined
        ? `${id} is the sandbox of this session.`
        : `The earlier sandbox of this session has ended, with its files and variables. The new one is ${id}.`;
    return id;
  }

  /** A canceled call does not end the sandbox: the next call of the session uses it. */
  async #create(session: McpSession, earlier: SandboxId | undefined): Promise<SandboxId> {
    // Calls at the same time, at whatever server, have the same key, and so get the same sandbox.
    const idempotencyKey = `mcp-${session.name}-${earlier ?? 'first'}`;
    const created = await this.#deps.cloche.sandboxes.create({ idleTimeoutMs: IDLE_TIMEOUT_MS }, { idempotencyKey });
    const id = await session.replaceSandbox(created.id);
    if (id !== created.id) await created.kill().catch(() => undefined);
    if (id === undefined) throw new ClocheError('not_found', 'The session has ended; connect again.');
    return id as SandboxId;
  }

  async #isUsable(sandboxId: SandboxId): Promise<boolean> {
    const { cloche, signal } = this.#deps;
    try {
      const { info } = await cloche.sandboxes.get(sandboxId, { signal });
      if (SANDBOX_STATUS_FACTS[info.status].isOver) return false;
      if (Date.parse(info.expiresAt) - Date.now() < EXTEND_BELOW_MS) await this.#extend(sandboxId);
      return true;
    } catch (error) {
      if (isClocheError(error, 'not_found')) return false;
      // A key that must not read sandboxes may still use them.
      if (isClocheError(error, 'forbidden')) return true;
      throw error;
    }
  }

  /** A refusal, as at the greatest age of a sandbox, is no failure of the call. */
  async #extend(sandboxId: SandboxId): Promise<void> {
    const { cloche, signal } = this.#deps;
    try {
      const body = { ttlMs: LIMITS.createTtlDefaultMs };
      await cloche.call('setSandboxTtl', { params: { sandboxId }, body, signal });
    } catch (error) {
      if (!isClocheError(error)) throw error;
    }
  }
}
