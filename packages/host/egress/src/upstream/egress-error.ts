/**
 * `denied`: by the policy or a closed range. `name_not_found`, `unreachable`, `timeout`, `untrusted` (certificate): the
 * server could not be reached. `busy`: the sandbox has used up its share of connections. `bad_response`: the server
 * sent what no client may accept. `secrets`: the values of the request's secrets could not be found out.
 */
export type EgressFailure =
  | 'denied'
  | 'name_not_found'
  | 'unreachable'
  | 'timeout'
  | 'untrusted'
  | 'busy'
  | 'bad_response'
  | 'secrets';

/** The reason for which a connection to a server failed. */
export class EgressError extends Error {
  readonly reason: EgressFailure;

  constructor(reason: EgressFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EgressError';
    this.reason = reason;
  }
}
