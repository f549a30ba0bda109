/** A cell in an intermediate form between the user's code and the code that runs. */
export interface JavaScript {
  readonly code: string;
  /** Source maps from `code` to the user's code, to be applied in order. */
  readonly sourceMaps: readonly string[];
}
