/** Translates failures of requests to an agent. A table maps error codes of the agent to kinds of `AgentError`. */
import { LIMITS } from '@cloche/contract';
import { FinalError } from '@cloche/node-support';
import { AGENT_FILE_ERROR_CODES, type AgentErrorCode, type AgentFileErrorCode, HEAD_PAUSING } from '@cloche/protocol';
import { FileError } from '../driver/agent-files.ts';
import { AgentError } from '../driver/runtime-driver.ts';
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
  ['pausing', 'pausing', 'contexts', 'commands', 'upgrades', 'files'],
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

interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly path?: string;
  readonly running?: number;
}

/** The agent does not pause, because runs or commands are in progress. Only `AgentClient.pause` meets it. */
export class StillRunning extends AgentError {
  readonly running: number;

  constructor(running: number, message: string) {
    super('conflict', message);
    this.running = running;
  }
}

/** Converts an error of the agent. A code that requests of the group cannot have counts as `internal`. */
export function refusal({ code, message, running }: Refusal, group: RequestGroup): AgentError {
  if (code === 'running' && group === 'contexts') return new StillRunning(running ?? 1, shortened(message));
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
export function headRefusal(status: number, sizeBytes: number | undefined): FileError | AgentError {
  if (status === HEAD_PAUSING) return new AgentError('pausing', 'The sandbox is about to be paused.');
  const [kind, message] = HEAD_REFUSALS.get(status) ?? ['conflict', 'The file cannot be read.'];
  return new FileError(kind, message, { ...(sizeBytes !== undefined && { sizeBytes }) });
}

/**
 * Returns the error to throw for a failed request: an error that is already converted, the signal's reason after an
 * abort, and an `AgentError` for any other failure.
 */
export function toAgentError(error: unknown, signal: AbortSignal, group: RequestGroup): unknown {
  if (error instanceof AgentError || error instanceof FileError || error instanceof FinalError) return error;
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
