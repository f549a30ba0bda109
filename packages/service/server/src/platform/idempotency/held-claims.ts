import { AppError } from '../base/app-error.ts';

/**
 * The claims that this process is working on, by owner. The database may have further claims of this server, whose
 * commit succeeded although its answer was lost. No request works on these.
 */
export class HeldClaims {
  readonly #claims = new Map<string, AbortController | undefined>();
  readonly #isFenced: () => boolean;

  /** @param isFenced whether other servers may count this one as dead */
  constructor(isFenced: () => boolean = () => false) {
    this.#isFenced = isFenced;
  }

  has(owner: string): boolean {
    return this.#claims.has(owner);
  }

  /** Call it before the claim is sent to the database. */
  add(owner: string): void {
    this.#claims.set(owner, undefined);
  }

  /** @throws AppError `unavailable` if the claim was abandoned while the database decided it */
  require(owner: string): void {
    if (this.#claims.has(owner) && !this.#isFenced()) return;
    this.#claims.delete(owner);
    throw new CutOffError();
  }

  /** Has `work` aborted when the claim is abandoned. */
  setWork(owner: string, work: AbortController): void {
    if (this.#claims.has(owner)) this.#claims.set(owner, work);
    else work.abort(new CutOffError());
  }

  delete(owner: string): void {
    this.#claims.delete(owner);
  }

  /** Ends the work on all claims, because another server may take them. */
  abandonAll(): void {
    const abandoned = [...this.#claims.values()];
    this.#claims.clear();
    for (const work of abandoned) work?.abort(new CutOffError());
  }
}

/** The error of requests while the server is cut off from its database. */
export class CutOffError extends AppError<'unavailable'> {
  constructor() {
    super('unavailable', 'This server is cut off from the database; send the request again.', { retryAfterSeconds: 1 });
  }
}
