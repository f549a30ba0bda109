import type { IncomingHttpHeaders } from 'node:http';
import type { Preview, SandboxId } from '@cloche/contract';
import { GatewayError, loopbackClient } from '@cloche/kit';
import { type Cloche, isClocheError } from '@cloche/sdk';
import { type Access, readAccessToken } from '../access-token.ts';
import type { E2bDeps } from '../e2b-deps.ts';

/** Most previews that are remembered. A forgotten preview stays open, and the next request opens another one. */
const REMEMBERED = 10_000;

export interface OpenPreview {
  readonly id: Preview['id'];
  readonly host: string;
  readonly token: string;
  readonly expiresAt: number;
}

/** Previews of ports, one for each port of a sandbox and each key. */
export class PortPreviews {
  readonly #deps: Pick<E2bDeps, 'apiUrl' | 'seal'>;
  readonly #open = new Map<string, Promise<OpenPreview>>();
  /** Ids of previews that may have been deleted. */
  readonly #suspects = new Set<string>();

  constructor(deps: Pick<E2bDeps, 'apiUrl' | 'seal'>) {
    this.#deps = deps;
  }

  /**
   * SECURITY: only the token of the sandbox opens its ports: held by "a port is reached with the token of its sandbox
   * alone" in e2b-urls.test.ts.
   *
   * @throws GatewayError 401
   */
  accessOf(sandboxId: string, token: string): Access {
    const access = readAccessToken(token, sandboxId, this.#deps.seal);
    if (access) return access;
    throw new GatewayError(401, 'The traffic access token belongs to another sandbox.');
  }

  /** Returns the preview of a port, and opens it if there is none. */
  async open(access: Access, port: number, fields: IncomingHttpHeaders): Promise<OpenPreview> {
    const name = JSON.stringify([access.sandboxId, port, access.apiKey]);
    const known = await this.#open.get(name)?.catch(() => undefined);
    if (known && known.expiresAt > Date.now() && !(await this.#isGone(known, this.#clientOf(access, fields))))
      return known;
    if (known) this.#open.delete(name);
    return this.#open.get(name) ?? this.#remember(name, this.#create(access, port, this.#clientOf(access, fields)));
  }

  /** Makes the next request check whether the preview still exists. */
  suspect({ id }: OpenPreview): void {
    this.#suspects.add(id);
    const [oldest] = this.#suspects;
    if (this.#suspects.size > REMEMBERED && oldest !== undefined) this.#suspects.delete(oldest);
  }

  async #isGone({ id }: OpenPreview, cloche: Cloche): Promise<boolean> {
    if (!this.#suspects.delete(id)) return false;
    try {
      await cloche.call('getPreview', { params: { previewId: id } });
      return false;
    } catch (error) {
      if (isClocheError(error, 'not_found')) return true;
      throw error;
    }
  }

  #remember(name: string, opening: Promise<OpenPreview>): Promise<OpenPreview> {
    this.#open.set(name, opening);
    opening.catch(() => this.#open.delete(name));
    const [oldest] = this.#open.keys();
    if (this.#open.size > REMEMBERED && oldest !== undefined) this.#open.delete(oldest);
    return opening;
  }

  async #create(access: Access, port: number, cloche: Cloche): Promise<OpenPreview> {
    const params = { sandboxId: access.sandboxId as SandboxId };
    const { preview } = await cloche.call('openPreview', { params, body: { port } });
    const { id, url, accessToken: token = '', expiresAt } = preview;
    return { id, host: new URL(url).host, token, expiresAt: Date.parse(expiresAt) };
  }

  #clientOf({ apiKey }: Access, fields: IncomingHttpHeaders): Cloche {
    return loopbackClient(this.#deps.apiUrl(), apiKey, fields);
  }
}
