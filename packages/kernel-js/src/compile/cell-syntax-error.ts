/** A cell that the language does not allow. `offset` is where, in UTF-16 units of the code. */
export class CellSyntaxError extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}
