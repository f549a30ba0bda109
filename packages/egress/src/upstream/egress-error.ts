/**
 * `denied`: the policy, or a closed range. `name_not_found`, `unreachable`, `timeout`, `untrusted` (its certificate):
 * the server that a request is for could not be asked. `busy`: the sandbox already has its share of connections.
 */
export type EgressFailure = 'denied' | 'name_not_found' | 'unreachable' | 'timeout' | 'untrusted' | 'busy';

/** Why a connection to a server did not come about. */
export class EgressError extends Error {
  readonly reason: EgressFailure;

  constructor(reason: EgressFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EgressError';
    this.reason = reason;
  }
}
