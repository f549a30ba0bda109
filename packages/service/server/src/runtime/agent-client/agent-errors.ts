/**
 * Translates failures between the service and an agent. One table maps error codes of the agent to kinds of
 * `AgentError`, another maps these kinds to errors of the service.
 */
import { LIMITS, type PreviewErrorCode } from '@cloche/contract';
import { AGENT_FILE_ERROR_CODES, type AgentErrorCode, type AgentFileErrorCode } from '@cloche/protocol';
import { AppError, invalidRequest, notFound, unavailable } from '../../platform/base/app-error.ts';
import { FileError } from '../driver/agent-files.ts';
import { AgentError, type LaunchError } from '../driver/runtime-driver.ts';
import { MalformedResponseError } from './bounded-body.ts';
import { cleaned } from './without-nul.ts';

type Kind = AgentError['kind'];

/** Groups of requests to an agent that it may refuse for the same reasons. `upgrades` are tunnels and terminals. */
export type RequestGroup = 'contexts' | 'commands' | 'upgrades' | 'files';

const MAX_MESSAGE_CHARACTERS = 500;

/** The kind of error for each error code of the agent, and the requests that may be refused with the code. */
const REFUSALS: readonly [AgentErrorCode, Kind, ...RequestGroup[]][] = [
  ['invalid_cwd', 'invalid_cwd', 'contexts', 'commands'],
  ['not_found', 'not_found', 'contexts', 'commands', 'upgrades'],
  ['conflict', 'conflict', 'contexts', 'commands'],
  ['language_unavailable', 'language_unavailable', 'contexts'],
  ['kernel_failed', 'kernel_failed', 'contexts'],
  ['process_limit', 'process_limit', 'contexts'],
  ['timeout', 'timeout', 'contexts', 'commands'],
  ['queue_full', 'busy', 'contexts', 'commands', 'upgrades'],
  ['port_closed', 'port_closed', 'upgrades'],
  ['unusable', 'unusable', 'contexts', 'commands', 'upgrades'],
];

/** Codes of failed or broken connections that are not system errors, or that have another code than the system's. */
const CONNECTION_CODES: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ENOTSOCK',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
]);

/** The error for each status of a refused HEAD request, whose response has no body. Any other status is a conflict. */
const HEAD_REFUSALS: ReadonlyMap<number, readonly [AgentFileErrorCode, string]> = new Map([
  [400, ['invalid_path', 'is invalid: give a non-empty path of at most 4096 bytes without NUL']],
  [403, ['permission_denied', 'This user of the sandbox has no permission for the file.']],
  [404, ['not_found', 'The file does not exist.']],
  [412, ['precondition_failed', 'The file has a different ETag.']],
  [416, ['range_not_satisfiable', 'The range begins after the end of the file.']],
]);

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

interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly path?: string;
}

/** Converts an error of the agent. A code that requests of the group cannot have counts as `internal`. */
export function refusal({ code, message }: Refusal, group: RequestGroup): AgentError {
  const [, kind = 'internal'] = REFUSALS.find(([known, , ...groups]) => known === code && groups.includes(group)) ?? [];
  return new AgentError(kind, shortened(message));
}

/** Converts an error of the agent about a file, which has `sizeBytes` if that is known. */
export function fileRefusal({ code, message, path }: Refusal, sizeBytes: number | undefined): FileError | AgentError {
  if (!isFileCode(code)) return refusal({ code, message }, 'files');
  return new FileError(code, shortened(message), {
    ...(sizeBytes !== undefined && { sizeBytes }),
    ...(path !== undefined && { path: cleaned(path.slice(0, LIMITS.filePathLength).toWellFormed()) }),
  });
}

/** Converts the status of a refused HEAD request for a file. */
export function headRefusal(status: number, sizeBytes: number | undefined): FileError {
  const [kind, message] = HEAD_REFUSALS.get(status) ?? ['conflict', 'The file cannot be read.'];
  return new FileError(kind, message, { ...(sizeBytes !== undefined && { sizeBytes }) });
}

/**
 * Returns the error to throw for a failed request: an error that is already converted, the signal's reason after an
 * abort, and an `AgentError` for any other failure.
 */
export function toAgentError(error: unknown, signal: AbortSignal, group: RequestGroup): unknown {
  if (error instanceof AgentError || error instanceof FileError || error instanceof AppError) return error;
  if (signal.aborted) return signal.reason;
  const message = error instanceof Error ? error.message : String(error);
  return new AgentError(kindOf(error, group), message, { cause: error });
}

/**
 * Returns whether an error is about the connection, as opposed to an invalid response. System errors such as `EAGAIN`
 * (the agent's backlog is full) or `EMFILE` (this process has no free descriptor) never mean that the response was
 * invalid.
 */
export function isConnectionError(error: unknown): boolean {
  return error instanceof Error && ('syscall' in error || ('code' in error && CONNECTION_CODES.has(error.code)));
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
  return unavailable('The host of the sandbox does not respond; try again.', error);
}

function kindOf(error: unknown, group: RequestGroup): 'gone' | 'misbehaved' {
  if (error instanceof MalformedResponseError) return 'misbehaved';
  // A body that the client sends or reads can break a transfer of a file too, so the agent is not blamed.
  return group === 'files' || isConnectionError(error) ? 'gone' : 'misbehaved';
}

/** Messages of an agent may become columns of a row. */
function shortened(message: string): string {
  return cleaned(message.slice(0, MAX_MESSAGE_CHARACTERS));
}

function isFileCode(code: string): code is AgentFileErrorCode {
  return (AGENT_FILE_ERROR_CODES as readonly string[]).includes(code);
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
