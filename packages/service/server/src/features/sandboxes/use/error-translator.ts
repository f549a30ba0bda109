import { AgentError, LaunchError } from '@cloche/runtime';
import type { Logger } from 'pino';
import { AppError } from '../../../platform/base/app-error.ts';
import { hostError, sandboxError } from '../../sandbox-records/agent-failures.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { sandboxEnded, sandboxPaused } from '../../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { DestroySandbox } from '../lifecycle/destroy-sandbox.ts';
import type { Reconciler } from '../lifecycle/reconciler.ts';

/** Translates agent faults into errors for the client. Checks or fails the sandbox when the fault calls for it. */
export class ErrorTranslator {
  readonly #sandboxes: SandboxRepository;
  readonly #destroySandbox: DestroySandbox;
  readonly #reconciler: Reconciler;
  readonly #log: Logger;

  constructor(sandboxes: SandboxRepository, destroySandbox: DestroySandbox, reconciler: Reconciler, log: Logger) {
    this.#sandboxes = sandboxes;
    this.#destroySandbox = destroySandbox;
    this.#reconciler = reconciler;
    this.#log = log;
  }

  /** Returns the error to answer with. If the record shows that the sandbox has ended or is paused, the error says so. */
  async translate(sandbox: SandboxRecord, error: unknown): Promise<AppError> {
    if (error instanceof AppError) return error;
    if (error instanceof LaunchError) return hostError(error);
    if (!(error instanceof AgentError)) throw error;
    if (error.kind === 'gone') return this.#translateGone(sandbox, error);
    if (error.kind === 'misbehaved') return this.#translateMisbehaved(sandbox, error);
    return sandboxError(error, sandbox);
  }

  async #translateGone(sandbox: SandboxRecord, error: AgentError): Promise<AppError> {
    this.#log.warn({ err: error, sandboxId: sandbox.id }, 'the connection to an agent broke');
    const now = await this.#reconciler.check(sandbox.id).catch((error) => {
      this.#log.warn({ err: error, sandboxId: sandbox.id }, 'a sandbox could not be checked');
      return this.#sandboxes.find(sandbox.id);
    });
    if (now && factsOf(now).isOver) return sandboxEnded(now);
    // The pause has ended what was open. A client that took it for a broken connection would try again, and wake it.
    if (now && factsOf(now).needsWake) return sandboxPaused(now);
    return sandboxError(error, sandbox);
  }

  async #translateMisbehaved(sandbox: SandboxRecord, error: AgentError): Promise<AppError> {
    this.#log.error({ err: error, sandboxId: sandbox.id }, 'an agent broke the protocol');
    await this.#destroySandbox.fail(sandbox, 'A process in the sandbox broke the internal protocol of the service.');
    return sandboxEnded((await this.#sandboxes.find(sandbox.id)) ?? sandbox);
  }
}
