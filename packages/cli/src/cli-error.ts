import type { ErrorBody } from '@cloche/contract';

/** A failure whose message is all that a person needs: one sentence and the next step. */
export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: number = 1;
}

/** What the operator's socket refused, with the service's own error. */
export class OperatorError extends CliError {
  override readonly name = 'OperatorError';
  readonly answer: ErrorBody['error'];

  constructor(answer: ErrorBody['error']) {
    super(answer.message);
    this.answer = answer;
  }
}

/** The command line itself is wrong. */
export class UsageError extends CliError {
  override readonly name = 'UsageError';
  override readonly exitCode = 2;
}
