import type { AgentErrorCode, AgentFileErrorCode } from '@cloche/protocol';

const STATUS: Record<AgentErrorCode | AgentFileErrorCode, number> = {
  invalid_cwd: 400,
  invalid_path: 400,
  too_many: 400,
  bad_archive: 400,
  bad_request: 400,
  permission_denied: 403,
  not_found: 404,
  language_unavailable: 409,
  port_closed: 409,
  unusable: 409,
  conflict: 409,
  running: 409,
  pausing: 409,
  precondition_failed: 412,
  range_not_satisfiable: 416,
  process_limit: 429,
  queue_full: 429,
  kernel_failed: 500,
  internal: 500,
  timeout: 504,
  disk_full: 507,
};

/** Message to the client when the process limit leaves no process for a kernel or a command. */
export const NO_PROCESS_LEFT =
  'the sandbox has reached its limit of processes and threads (resources.pids); end some, or create a sandbox with a higher limit';

/** An error with a code that the server understands. */
export class AgentError extends Error {
  readonly code: AgentErrorCode | AgentFileErrorCode;
  /** Path of the file concerned, if the message alone is not enough. */
  readonly path: string | undefined;

  constructor(code: AgentErrorCode | AgentFileErrorCode, message: string, path?: string) {
    super(message);
    this.code = code;
    this.path = path;
  }

  get status(): number {
    return STATUS[this.code];
  }
}

/** Runs or waited commands are in progress, so the agent does not pause. */
export class StillRunning extends AgentError {
  readonly running: number;

  constructor(running: number) {
    super('running', `${running} runs and commands are in progress.`);
    this.running = running;
  }
}
