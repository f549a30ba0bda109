import type { Logger } from 'pino';
import { AppError, invalidRequest, unavailable } from '../../base/app-error.ts';
import { AgentError, LaunchError } from '../../driver/runtime-driver.ts';
import type { DestroySandbox } from '../lifecycle/destroy-sandbox.ts';
import type { Reconciler } from '../lifecycle/reconciler.ts';
import { isLive, type SandboxRecord } from '../record/sandbox.ts';
import { sandboxEnded } from '../record/sandbox-access.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';

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

  /** Returns the error to answer with. If the record shows that the sandbox has ended, the error says so. */
  async translate(sandbox: SandboxRecord, error: unknown): Promise<AppError> {
    if (error instanceof AppError) return error;
    if (error instanceof LaunchError) return unavailable('The host of the sandbox does not respond; try again.', error);
    if (!(error instanceof AgentError)) throw error;
    if (error.kind === 'gone') return this.#translateGone(sandbox, error);
    if (error.kind === 'misbehaved') return this.#translateMisbehaved(sandbox, error);
    return error.kind === 'process_limit' ? noProcessLeft(sandbox, error) : toAppError(error);
  }

  async #translateGone(sandbox: SandboxRecord, error: AgentError): Promise<AppError> {
    this.#log.warn({ err: error, sandboxId: sandbox.id }, 'the connection to an agent broke');
    const now = await this.#reconciler.check(sandbox.id).catch((error) => {
      this.#log.warn({ err: error, sandboxId: sandbox.id }, 'a sandbox could not be checked');
      return this.#sandboxes.find(sandbox.id);
    });
    if (now && !isLive(now)) return sandboxEnded(now);
    return unavailable(`The connection to the sandbox "${sandbox.id}" broke; try again.`, error);
  }

  async #translateMisbehaved(sandbox: SandboxRecord, error: AgentError): Promise<AppError> {
    this.#log.error({ err: error, sandboxId: sandbox.id }, 'an agent broke the protocol');
    await this.#destroySandbox.fail(sandbox, 'A process in the sandbox broke the internal protocol of the service.');
    return sandboxEnded((await this.#sandboxes.find(sandbox.id)) ?? sandbox);
  }
}

function toAppError(error: AgentError): AppError {
  switch (error.kind) {
    case 'invalid_cwd':
      return invalidRequest({
        path: 'body.cwd',
        message: 'must be an existing directory inside /workspace after symbolic links are followed',
      });
    case 'language_unavailable':
      return invalidRequest({ path: 'body.language', message: "is not available in this sandbox's template" });
    case 'timeout':
      return unavailable('The interpreter did not start in time; try again with a larger timeoutMs.', error);
    case 'kernel_failed':
      return unavailable(
        'The interpreter could not be started; if the sandbox is out of memory, delete a context or end processes.',
        error,
      );
    case 'busy':
      return unavailable('The sandbox has too many active and queued runs; try again when some have ended.', error);
    case 'port_closed':
      return unavailable('No program listens on the port inside the sandbox.', error);
    default:
      return new AppError(
        'internal',
        'The operation failed inside the sandbox; the log of the service has the cause under the request id.',
        { cause: error },
      );
  }
}

function noProcessLeft({ resources }: SandboxRecord, cause: Error): AppError {
  const { pids: limit } = resources;
  const message =
    `The interpreter could not be started: the sandbox has reached its limit of processes and threads ` +
    `(resources.pids is ${limit}); end some, or create a sandbox with a higher limit.`;
  return new AppError('quota_exceeded', message, { cause, details: { quota: 'resources.pids', limit, used: limit } });
}
