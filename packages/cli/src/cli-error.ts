/** A failure whose message is all that a person needs: one sentence and the next step. */
export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: number = 1;
}

/** The command line itself is wrong. */
export class UsageError extends CliError {
  override readonly name = 'UsageError';
  override readonly exitCode = 2;
}
