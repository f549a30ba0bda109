/** An error response: an HTTP status and a message. Each protocol serialises it in its own format. */
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
