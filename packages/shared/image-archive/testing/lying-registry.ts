import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { digestOf, type TestImage, writeLayout } from './make-image.ts';

/** Answers a request in place of the honest answer; returns false to leave it to that. */
export type Lie = (
  request: IncomingMessage,
  response: ServerResponse,
  honest: Buffer | undefined,
) => boolean | undefined;

/** A registry of one image in `team/app:1`, which a test makes lie. */
export class LyingRegistry implements AsyncDisposable {
  readonly requests: {
    readonly path: string;
    readonly range: string | undefined;
    readonly authorization: string | undefined;
  }[] = [];
  lie: Lie = () => false;
  readonly #files: Record<string, Buffer> = {};
  readonly #server: Server;
  #manifest: Buffer;

  private constructor(image: TestImage, tls: { readonly certFile: string; readonly keyFile: string }) {
    writeLayout('/dev/null', image, (made) => void Object.assign(this.#files, made));
    this.#manifest = this.#files[
      `blobs/sha256/${JSON.parse(String(this.#files['index.json'])).manifests[0].digest.slice(7)}`
    ] as Buffer;
    const options = { cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) };
    this.#server = createServer(options, (request, response) => this.#answer(request, response));
  }

  static async start(
    image: TestImage,
    tls: { readonly certFile: string; readonly keyFile: string },
  ): Promise<LyingRegistry> {
    const registry = new LyingRegistry(image, tls);
    await new Promise<void>((resolve) => registry.#server.listen(0, '127.0.0.1', resolve));
    return registry;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get manifest(): Record<string, unknown> & { config: Descriptor; layers: Descriptor[] } {
    return JSON.parse(String(this.#manifest));
  }

  /** Serves another manifest by the tag, with its own digest. */
  set manifest(value: unknown) {
    this.#manifest = Buffer.from(JSON.stringify(value));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { url: path = '', headers } = request;
    const { range, authorization } = headers;
    this.requests.push({ path, range, authorization });
    const [, kind, reference = ''] = /^\/v2\/team\/app\/(manifests|blobs)\/(.+)$/.exec(path) ?? [];
    const bytes = kind === 'manifests' ? this.#manifest : this.#files[`blobs/${reference.replace(':', '/')}`];
    if (this.lie(request, response, bytes)) return;
    if (!bytes) return void response.writeHead(404).end();
    if (kind === 'manifests')
      response
        .setHeader('content-type', 'application/vnd.oci.image.manifest.v1+json')
        .setHeader('docker-content-digest', digestOf(bytes));
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
    if (from >= bytes.length && from > 0) return void response.writeHead(416).end();
    if (range !== undefined)
      response.writeHead(206, { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` });
    response.end(request.method === 'HEAD' ? undefined : bytes.subarray(from));
  }
}

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: unknown;
}
