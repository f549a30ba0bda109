/** The service's errors for failures of a sandbox's agent and of its files. */
import type { PreviewErrorCode } from '@cloche/contract';
import { AgentError, type LaunchError } from '@cloche/runtime';
import type { FileError } from '@cloche/runtime/agent-files';
import { AppError, invalidRequest, notFound, unavailable } from '../../platform/base/app-error.ts';

type Kind = AgentError['kind'];

/**
 * The service's error for each failure of a sandbox's agent. The others are `unavailable`: whatever a process in a sandbox
 * answers, it is no failure of the service.
 */
const SANDBOX_ERRORS: Partial<Record<Kind, (error: AgentError, sandbox: Subject) => AppError>> = {
  gone: (error, { id }) => unavailable(`The connection to the sandbox "${id}" broke; try again.`, error),
  invalid_cwd: () =>
    invalidRequest({
      path: 'body.cwd',
      message: 'must be an existing directory inside /workspace after symbolic links are followed',
    }),
  language_unavailable: () =>
    invalidRequest({ path: 'body.language', message: "is not available in this sandbox's template" }),
  timeout: (error) => unavailable('The interpreter did not start in time; try again with a larger timeoutMs.', error),
  kernel_failed: (error) =>
    unavailable(
      'The interpreter could not be started; if the sandbox is out of memory, delete a context or end processes.',
      error,
    ),
  process_limit: (error, { resources }) => noProcessLeft(resources.pids, error),
  busy: (error) =>
    unavailable('The sandbox has too many active and queued runs; try again when some have ended.', error),
  incompatible: (cause, { id }) => {
    const message = `The sandbox "${id}" was launched by a version of the service that the server cannot work with. Create another one, or have the operator run a server of the version that launched it.`;
    return new AppError('sandbox_incompatible', message, { cause });
  },
  unusable,
  port_closed: (error) => unavailable('No program listens on the port inside the sandbox.', error),
};

/** Errors that replace those of `SANDBOX_ERRORS` for some requests. `id` is the terminal's id. */
const OWN_ERRORS = {
  command: {
    invalid_cwd: () =>
      invalidRequest({ path: 'body.cwd', message: 'must be an existing directory that the user may enter' }),
    busy: (error) => unavailable('The sandbox has too many running commands; end some.', error),
    unusable,
  },
  stdin: {
    conflict: inputClosed,
    timeout: (cause) =>
      new AppError(
        'unavailable',
        'The command does not read its standard input. The data is buffered; send more when the command reads again.',
        { cause, retryAfterSeconds: 5 },
      ),
  },
  resize: { conflict: noTerminal },
  newTerminal: {
    not_found: (_, id) => notFound('terminal', id),
    busy: (error) => unavailable('The sandbox has too many open terminals; close one.', error),
  },
  openTerminal: {
    not_found: (_, id) => notFound('terminal', id),
    busy: (error) => unavailable('The terminal has its maximum number of clients; disconnect one.', error),
  },
} satisfies Record<string, Partial<Record<Kind, (error: AgentError, id: string) => AppError>>>;

/** Errors that the visitor of a preview sees. */
const TUNNEL_ERRORS: Partial<Record<Kind, (port: number) => readonly [PreviewErrorCode, string]>> = {
  port_closed: (port) => [
    'preview_port_closed',
    `No program listens on port ${port} inside the sandbox. Start a server on this port.`,
  ],
  busy: () => ['preview_busy', 'The sandbox has too many connections to its ports; close some.'],
};

/** Names of the requests that have entries in `OWN_ERRORS`. */
export type OwnErrors = keyof typeof OWN_ERRORS;

interface Subject {
  readonly id: string;
  readonly resources: { readonly pids: number };
}

/** Returns the service's error for a failure of the sandbox's agent. */
export function sandboxError(error: AgentError, sandbox: Subject): AppError {
  return SANDBOX_ERRORS[error.kind]?.(error, sandbox) ?? failedInside(error);
}

/**
 * Returns the error that replaces the usual one for this request and failure, or undefined. `id` is the terminal's id.
 */
export function ownError(request: OwnErrors, error: unknown, id = ''): AppError | undefined {
  const own: Partial<Record<Kind, (error: AgentError, id: string) => AppError>> = OWN_ERRORS[request];
  return error instanceof AgentError ? own[error.kind]?.(error, id) : undefined;
}

/** Returns the code and the message for the visitor of a preview, or undefined if the failure is not about its port. */
export function tunnelError(error: unknown, port: number): readonly [PreviewErrorCode, string] | undefined {
  return error instanceof AgentError ? TUNNEL_ERRORS[error.kind]?.(port) : undefined;
}

/** Returns the service's error about a file. `field` is the field of the request that has the path. */
export function fileError(error: FileError, field = 'path'): AppError {
  const { kind, details } = error;
  const message = error.message.toWellFormed();
  if (kind === 'bad_archive') {
    const what = `cannot be unpacked: ${message}. Nothing was written; send a corrected archive`;
    return invalidRequest({ path: 'body', message: what });
  }
  if (kind === 'invalid_path' || kind === 'too_many') return invalidRequest({ path: field, message });
  const { path, sizeBytes } = details;
  if (kind === 'permission_denied' && path !== undefined) {
    return new AppError(kind, message, { cause: error, details: { path } });
  }
  if (kind === 'range_not_satisfiable' && sizeBytes !== undefined) {
    return new AppError(kind, message, { cause: error, details: { sizeBytes } });
  }
  return new AppError(kind, message, { cause: error });
}

/** Returns the error for data that a command no longer reads. */
export function inputClosed(cause: unknown): AppError {
  const message =
    'The command has ended or its standard input is closed; create the command with stdinOpen to write to it.';
  return new AppError('conflict', message, { cause });
}

/** Returns the error for a command whose terminal cannot be resized. */
export function noTerminal(cause: unknown): AppError {
  const message = 'The command has ended or has no terminal; create the command with terminal to resize it.';
  return new AppError('conflict', message, { cause });
}

/** Returns the error for an operation that exceeded its time limit. */
export function tooSlow(ms: number | undefined, cause: unknown): AppError {
  return unavailable(`The sandbox did not respond within ${Number(ms) / 1000} seconds; try again.`, cause);
}

/** Returns the error for a runtime that failed. */
export function hostError(error: LaunchError): AppError {
  if (error.kind === 'no_capacity') {
    return unavailable('The host has no memory for this now; try again, or end or pause other sandboxes.', error);
  }
  return unavailable('The host of the sandbox does not respond; try again.', error);
}

function noProcessLeft(limit: number, cause: Error): AppError {
  const message =
    `The interpreter could not be started: the sandbox has reached its limit of processes and threads ` +
    `(resources.pids is ${limit}); end some, or create a sandbox with a higher limit.`;
  return new AppError('quota_exceeded', message, { cause, details: { quota: 'resources.pids', limit, used: limit } });
}

/** Returns the error for a workspace or an interpreter that does not work until the sandbox's owner repairs it. */
function unusable(cause: AgentError): AppError {
  return new AppError('conflict', `The sandbox cannot do this as it is: ${cause.message}.`, { cause });
}

function failedInside(cause: AgentError): AppError {
  return unavailable('The operation failed inside the sandbox; try again.', cause);
}
