import type { OpenPreviewBody, Preview, PreviewId, SandboxId } from '@cloche/contract';
import { PREVIEW_TOKEN_PARAMETER } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface OpenPreviewOptions extends CallOptions {
  /** Default: `private`, which asks for the token. */
  visibility?: OpenPreviewBody['visibility'];
  /** Default: as long as the sandbox lives. */
  ttlMs?: number | undefined;
}

/** The previews of one sandbox: its ports at URLs of their own. */
export class Previews {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Serves `port` at a URL; nothing need listen there yet. The `accessToken` of a private one is in this answer alone.
   *
   * ```ts
   * const preview = await sandbox.previews.open(8000);
   * previewLink(preview); // opens it in a browser
   * ```
   */
  async open(port: number, options: OpenPreviewOptions = {}): Promise<Preview> {
    const { visibility, ttlMs, ...call } = options;
    const body: OpenPreviewBody = {
      port,
      ...(visibility === undefined ? {} : { visibility }),
      ...(ttlMs === undefined ? {} : { ttlMs }),
    };
    const params = { sandboxId: this.#sandboxId };
    return (await this.#client.call('openPreview', { ...call, params, body })).preview;
  }

  /** The open ones, newest first. */
  async list(options: CallOptions = {}): Promise<Preview[]> {
    const params = { sandboxId: this.#sandboxId };
    return (await this.#client.call('listSandboxPreviews', { ...options, params })).data;
  }

  /** At once, with every connection through it. Idempotent. */
  async close(previewId: string, options: CallOptions = {}): Promise<Preview> {
    // Ids are opaque: the service tells which exist, whatever they look like.
    const params = { previewId: previewId as PreviewId };
    return (await this.#client.call('deletePreview', { ...options, params })).preview;
  }
}

/** The URL that opens a preview in a browser: of a private one with its token, which the browser then keeps. */
export function previewLink({ url, accessToken }: Pick<Preview, 'url' | 'accessToken'>): string {
  return accessToken === undefined ? `${url}/` : `${url}/?${PREVIEW_TOKEN_PARAMETER}=${accessToken}`;
}
