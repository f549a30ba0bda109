import type { ErrorBody } from '@cloche/contract';

/** A failure with a message for the user: one sentence and the next step. */
export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: number = 1;
}

/** An error response from the operator socket. */
export class OperatorError extends CliError {
  override readonly name = 'OperatorError';
  readonly answer: ErrorBody['error'];

  constructor(answer: ErrorBody['error']) {
    super(answer.message);
    this.answer = answer;
  }
}

/** An invalid command line. */
export class UsageError extends CliError {
  override readonly name = 'UsageError';
  override readonly exitCode = 2;
}
