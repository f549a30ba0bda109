import type { AgentErrorCode } from '@cloche/protocol';

const STATUS: Record<AgentErrorCode, number> = {
  invalid_cwd: 400,
  bad_request: 400,
  not_found: 404,
  language_unavailable: 409,
  port_closed: 409,
  queue_full: 429,
  kernel_failed: 500,
  internal: 500,
  timeout: 504,
};

/** A refusal that the server understands. */
export class AgentError extends Error {
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string) {
    super(message);
    this.code = code;
  }

  get status(): number {
    return STATUS[this.code];
  }
}
