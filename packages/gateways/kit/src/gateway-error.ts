/** An answer to a client that is not what it asked for: an HTTP status and a text. Each protocol has its own form of it. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly status: number;
  /** Fields of the answer, such as `retry-after`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}
