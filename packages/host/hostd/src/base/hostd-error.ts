import type { HostdErrorCode } from '@cloche/protocol';

/** A failure that has a meaning for the server; any other thrown error is reported as `internal`. */
export class HostdError extends Error {
  readonly code: HostdErrorCode;

  constructor(code: HostdErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'HostdError';
    this.code = code;
  }
}
