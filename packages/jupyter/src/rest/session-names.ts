/** The name, path and type of a session, which it has besides its kernel. */
export interface SessionName {
  readonly path: string;
  readonly name: string;
  readonly type: string;
}

/** Sessions whose names are remembered. */
const MAX_NAMES = 10_000;

/** Names of sessions by kernel, in the memory of one server. A kernel without one has its id as its path. */
export class SessionNames {
  readonly #names = new Map<string, SessionName>();

  get(kernelId: string): SessionName {
    return this.#names.get(kernelId) ?? { path: kernelId, name: '', type: 'notebook' };
  }

  set(kernelId: string, name: SessionName): void {
    this.#names.delete(kernelId);
    this.#names.set(kernelId, name);
    const [oldest] = this.#names.keys();
    if (this.#names.size > MAX_NAMES && oldest !== undefined) this.#names.delete(oldest);
  }
}
