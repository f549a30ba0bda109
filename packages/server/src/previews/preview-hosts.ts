import type { PreviewId } from '@cloche/contract';

const LABEL_PREFIX = 'prv-';
const ID_PREFIX = 'prv_';

/**
 * The host names of previews: a label of its own for each, below one domain.
 *
 * SECURITY: a name below the domain that begins so is a preview's, known or not, and never reaches the API; every other
 * name never reaches a preview. Held by "the API is not reached by the host of a preview" in previews.test.ts.
 */
export class PreviewHosts {
  readonly #protocol: string;
  readonly #domain: string;
  #port: string;

  /** @param base such as `https://preview.example.com`; undefined: `http://localhost` at the port that is served */
  constructor(base: string | undefined) {
    const url = new URL(base ?? 'http://localhost');
    this.#protocol = url.protocol;
    this.#domain = url.hostname;
    this.#port = url.port;
  }

  /** Without effect where the operator named a base. */
  servedAt(port: number): void {
    if (this.#domain === 'localhost' && this.#port === '') this.#port = String(port);
  }

  get isSecure(): boolean {
    return this.#protocol === 'https:';
  }

  /** Without a slash at the end. */
  urlOf(id: PreviewId): string {
    const port = this.#port === '' ? '' : `:${this.#port}`;
    return `${this.#protocol}//${this.nameOf(id)}${port}`;
  }

  nameOf(id: PreviewId): string {
    return `${LABEL_PREFIX}${id.slice(ID_PREFIX.length)}.${this.#domain}`;
  }

  /** The preview that a `Host` header names, whether or not there is one. Undefined for every other host. */
  idOf(header: string | undefined): PreviewId | undefined {
    if (header === undefined) return undefined;
    const name = header.toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '');
    if (!name.endsWith(`.${this.#domain}`)) return undefined;
    const labels = name.slice(0, -this.#domain.length - 1);
    // Names below that of a preview are previews' too, of ids that do not exist.
    const isPreview = labels.split('.').at(-1)?.startsWith(LABEL_PREFIX);
    return isPreview ? (`${ID_PREFIX}${labels.replace(LABEL_PREFIX, '')}` as const) : undefined;
  }
}
