/** A request under way that counts towards the limit of an organization until it is disposed of. */
export interface HeldConnection extends Disposable {
  /** Aborts when the key of the client ends, or the server stops. */
  readonly signal: AbortSignal;
}

/**
 * Counts a long connection, such as a WebSocket or a stream, as a request under way of the organization of this key.
 *
 * @throws an error with `status` and `message` if the organization, or all together, have too many
 */
export type HoldConnection = (apiKey: string) => Promise<HeldConnection>;
