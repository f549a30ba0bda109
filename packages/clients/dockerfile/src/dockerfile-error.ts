/** A Dockerfile that cannot be built. The message begins with the line and says what to change. */
export class DockerfileError extends Error {
  override readonly name = 'DockerfileError';
  readonly code = 'bad_dockerfile';
  /** Line of the instruction, from 1. */
  readonly line: number;

  constructor(line: number, message: string) {
    super(`line ${line}: ${message}`);
    this.line = line;
  }
}
