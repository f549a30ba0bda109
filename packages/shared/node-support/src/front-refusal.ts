/** A refusal of a request before its body is read. Each protocol sends it in its own form. */
export class FrontRefusal extends Error {
  override readonly name = 'FrontRefusal';
  readonly status: number;
  /** Fields of the answer, such as `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}
