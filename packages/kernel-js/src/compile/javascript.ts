/** What a cell became on its way to code that runs. */
export interface JavaScript {
  readonly code: string;
  /** From `code` back to what the user wrote: applied in order. */
  readonly sourceMaps: readonly string[];
}
