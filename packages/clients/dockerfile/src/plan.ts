/** A local file or directory, or an inline file, that a `COPY` puts into the template. */
export interface CopyStep {
  readonly kind: 'copy';
  readonly line: number;
  /** `ADD` would unpack a local archive, which is refused. */
  readonly keyword: 'COPY' | 'ADD';
  /** Paths or patterns below the context folder. */
  readonly sources: readonly string[];
  readonly inline: readonly { readonly name: string; readonly content: string }[];
  /** Absolute path; ends with a slash if it must be a directory. */
  readonly to: string;
  /** `user` or `user:group`, by name or number. */
  readonly owner: string | undefined;
  /** Permission bits of every file and directory. */
  readonly mode: number | undefined;
}

export interface RunStep {
  readonly kind: 'run';
  readonly line: number;
  readonly argv: readonly string[];
  /** The user that `USER` named, as written: a name or a number, with a group if one was given. */
  readonly user: string;
  readonly cwd: string;
  /** Build arguments, which are variables of this step alone. */
  readonly args: Readonly<Record<string, string>>;
}

export type PlanStep =
  | RunStep
  | CopyStep
  | { readonly kind: 'env'; readonly line: number; readonly env: Readonly<Record<string, string>> }
  /** The directory is created if it is missing. */
  | { readonly kind: 'workdir'; readonly line: number; readonly path: string };

/** The instructions of a Dockerfile, in order. */
export interface DockerfilePlan {
  readonly from: { readonly line: number; readonly name: string };
  readonly steps: readonly PlanStep[];
  /** Instructions without effect; each begins with its line. */
  readonly warnings: readonly string[];
}
