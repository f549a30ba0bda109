import type { PreviewId } from '@cloche/contract';

const LABEL_PREFIX = 'prv-';
const ID_PREFIX = 'prv_';

/**
 * Host names of previews. Each preview has its own label below one domain.
 *
 * SECURITY: a name below the domain with the prefix `prv-` belongs to a preview, existing or not, and never reaches the
 * API; every other name never reaches a preview. Held by "the API is not reached by the host of a preview" in
 * previews.test.ts.
 */
export class PreviewHosts {
  readonly #protocol: string;
  readonly #domain: string;
  #port: string;

  /** @param base for example `https://preview.example.com`; undefined means `http://localhost` at the server's port */
  constructor(base: string | undefined) {
    const url = new URL(base ?? 'http://localhost');
    this.#protocol = url.protocol;
    this.#domain = url.hostname;
    this.#port = url.port;
  }

  /** Sets the server's port. Has no effect if the operator configured a base. */
  servedAt(port: number): void {
    if (this.#domain === 'localhost' && this.#port === '') this.#port = String(port);
  }

  get isSecure(): boolean {
    return this.#protocol === 'https:';
  }

  /** Returns the URL of a preview, without a trailing slash. */
  urlOf(id: PreviewId): string {
    return `${this.#protocol}//${this.nameOf(id)}${this.#portSuffix}`;
  }

  /** Returns the domain below which previews have their names, with the port. */
  get domain(): string {
    return this.#domain + this.#portSuffix;
  }

  get #portSuffix(): string {
    return this.#port === '' ? '' : `:${this.#port}`;
  }

  nameOf(id: PreviewId): string {
    return `${LABEL_PREFIX}${id.slice(ID_PREFIX.length)}.${this.#domain}`;
  }

  /**
   * Returns the preview that a `Host` header names, even if it does not exist. Returns undefined for every other host.
   */
  idOf(header: string | undefined): PreviewId | undefined {
    if (header === undefined) return undefined;
    const name = header.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '');
    if (!name.endsWith(`.${this.#domain}`)) return undefined;
    const labels = name.slice(0, -this.#domain.length - 1);
    // Names below a preview's name also count as previews, with ids that do not exist.
    const isPreview = labels.split('.').at(-1)?.startsWith(LABEL_PREFIX);
    return isPreview ? (`${ID_PREFIX}${labels.replace(LABEL_PREFIX, '')}` as const) : undefined;
  }
}
