import type { IncomingMessage, ServerResponse } from 'node:http';
import { PREVIEW_TOKEN_HEADER } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { LeavingConnection, Refusal } from '@cloche/node-support';
import type { Logger } from 'pino';
import { type Access, readAnyToken } from '../access-token.ts';
import type { E2bDeps, PortServer, PreviewServer, TokenSeal } from '../e2b-deps.ts';
import { e2bError } from '../e2b-error.ts';
import { type OpenPreview, PortPreviews } from './port-previews.ts';

const TOKEN_HEADER = 'e2b-traffic-access-token';
/** Header in which clients send the same token to the services of a sandbox, and with each request that they make. */
const BOX_TOKEN_HEADER = 'x-access-token';
/**
 * Label of a host that `getHost` names: the port and the id of the sandbox. A hyphen may replace the underscore, for
 * which Python accepts no wildcard certificate.
 */
const LABEL = /^(\d{1,5})-sbx[_-]([0-9a-z]+)$/;

interface Port {
  readonly port: number;
  readonly sandboxId: string;
}

/**
 * Serves the hosts that `getHost` of E2B's clients names: `PORT-ID.domain`. A public port is served as it is. Each other
 * is a preview of `/v1`, opened with the key in the token of the request and served like every preview.
 */
export class PortRouter {
  readonly #server: PreviewServer;
  readonly #previews: PortPreviews;
  readonly #seal: TokenSeal;
  readonly #log: Logger;
  /** The public port of each request without a token, found when the request arrived. */
  readonly #public = new WeakMap<IncomingMessage, PortServer>();

  constructor({ previews, log, ...deps }: E2bDeps) {
    this.#server = previews;
    this.#previews = new PortPreviews(deps);
    this.#seal = deps.seal;
    this.#log = log;
  }

  matches(request: IncomingMessage): boolean {
    return this.#find(request) !== undefined;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const open = this.#public.get(request);
    if (open) return open.handle(withFields(request, this.#keptFields(request)), response);
    const opened = await this.#open(request).catch((error: unknown) => this.#answerTo(error));
    if ('body' in opened) {
      response.writeHead(opened.status, opened.fields).end(opened.body);
      return;
    }
    response.once('close', () => response.statusCode === 404 && this.#previews.suspect(opened));
    await this.#server.handle(request, response);
  }

  async upgrade(connection: LeavingConnection): Promise<void> {
    const { request } = connection;
    const open = this.#public.get(request);
    if (open) {
      withFields(request, this.#keptFields(request));
      return open.upgrade(connection);
    }
    const opened = await this.#open(request).catch((error: unknown) => this.#answerTo(error));
    if ('body' in opened) connection.refuse(opened);
    else await this.#server.upgrade(connection);
  }

  /** Returns the key that a request uses; undefined if its port is public. @throws GatewayError 401 */
  async keyOf(request: IncomingMessage): Promise<string | undefined> {
    const found = this.#find(request);
    const open = found && (await this.#server.findPublic(found.sandboxId, found.port));
    if (!open) return this.#accessOf(request).apiKey;
    this.#public.set(request, open);
    return undefined;
  }

  /** Returns what the token of a request opens. @throws GatewayError 401 */
  #accessOf(request: IncomingMessage): Access {
    const found = this.#find(request);
    const token = request.headers[TOKEN_HEADER];
    if (!found || typeof token !== 'string') {
      const message = `Send the header ${TOKEN_HEADER} with trafficAccessToken of the sandbox, or open a preview.`;
      throw new GatewayError(401, message);
    }
    return this.#previews.accessOf(found.sandboxId, token);
  }

  #find({ headers }: IncomingMessage): Port | undefined {
    const end = `.${this.#server.domain()}`;
    const host = headers.host?.toLowerCase() ?? '';
    const [, port, id] = (host.endsWith(end) && LABEL.exec(host.slice(0, -end.length))) || [];
    return port === undefined || id === undefined ? undefined : { port: Number(port), sandboxId: `sbx_${id}` };
  }

  /** Opens the preview and gives the request its host and its token. */
  async #open(request: IncomingMessage): Promise<OpenPreview> {
    const { port = 0 } = this.#find(request) ?? {};
    const preview = await this.#previews.open(this.#accessOf(request), port, request.headers);
    const kept = this.#keptFields(request);
    withFields(request, ['Host', preview.host, PREVIEW_TOKEN_HEADER, preview.token, ...kept]);
    request.headers.host = preview.host;
    return preview;
  }

  #keptFields({ rawHeaders }: IncomingMessage): string[] {
    return rawHeaders.flatMap((name, at) => {
      const value = rawHeaders[at + 1] ?? '';
      return at % 2 === 1 || this.#isDropped(name.toLowerCase(), value) ? [] : [name, value];
    });
  }

  /**
   * SECURITY: the program that answers gets no token, with which it could use the client's key: held by "a port that
   * E2B's clients name gets no token of its sandbox" in e2b-box.test.ts.
   */
  #isDropped(name: string, value: string): boolean {
    if (name === 'host' || name === TOKEN_HEADER) return true;
    // A program may have tokens of its own by this name.
    return name === BOX_TOKEN_HEADER && readAnyToken(value, this.#seal) !== undefined;
  }

  #answerTo(error: unknown): Refusal {
    const { status, message, headers } = e2bError(error, this.#log);
    const fields = { ...headers, 'content-type': 'application/json' };
    return { status, fields, body: JSON.stringify({ code: status, message }) };
  }
}

/** Replaces the fields that the program at the port gets. */
function withFields(request: IncomingMessage, fields: readonly string[]): IncomingMessage {
  request.rawHeaders.splice(0, request.rawHeaders.length, ...fields);
  return request;
}
