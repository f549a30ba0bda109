import type { OpenPreviewBody, Preview, PreviewId, SandboxId } from '@cloche/contract';
import { PREVIEW_TOKEN_PARAMETER } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface OpenPreviewOptions extends CallOptions {
  /** Default: `private`, which requires the token. */
  visibility?: OpenPreviewBody['visibility'];
  /** Lifetime in milliseconds. Default: the remaining lifetime of the sandbox. */
  ttlMs?: number | undefined;
}

/** The previews of a sandbox. Each serves a port at its own URL. */
export class Previews {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Serves `port` at a URL; a program may start to listen on it later. Only this response has a private preview's
   * `accessToken`.
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

  /** Lists open previews, newest first. */
  list(options: PageOptions = {}): PagedList<Preview> {
    return pagedList(this.#client, 'listSandboxPreviews', { ...options, params: { sandboxId: this.#sandboxId } });
  }

  /** Closes a preview and all its connections at once. Idempotent. */
  async close(previewId: string, options: CallOptions = {}): Promise<Preview> {
    // Ids are opaque, so only the service can check them.
    const params = { previewId: previewId as PreviewId };
    return (await this.#client.call('deletePreview', { ...options, params })).preview;
  }
}

/**
 * Returns the URL that opens a preview in a browser. A private preview's includes its token, which the browser then
 * stores.
 */
export function previewLink({ url, accessToken }: Pick<Preview, 'url' | 'accessToken'>): string {
  return accessToken === undefined ? `${url}/` : `${url}/?${PREVIEW_TOKEN_PARAMETER}=${accessToken}`;
}
