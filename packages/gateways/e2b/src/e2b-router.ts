import type { IncomingMessage, ServerResponse } from 'node:http';
import { gatewayApp } from '@cloche/kit/gateway-app';
import type { LeavingConnection, Refusal } from '@cloche/node-support';
import type { FastifyInstance } from 'fastify';
import { BODY_BYTES } from './body-bounds.ts';
import { boxRoutes } from './box/box-routes.ts';
import { accessOf } from './box/box-session.ts';
import { rpcCodeOf } from './box/connect-error.ts';
import { interpreterRoutes } from './box/interpreter-routes.ts';
import { signedFileRoutes } from './box/signed-file-routes.ts';
import { isSigned, SignedUrls } from './box/signed-urls.ts';
import { keyOf } from './control/client-of.ts';
import { controlRoutes } from './control/control-routes.ts';
import type { E2bDeps } from './e2b-deps.ts';
import { boxError, e2bError } from './e2b-error.ts';
import { KnownTokens } from './known-tokens.ts';
import { PortRouter } from './ports/port-router.ts';
import { buildRoutes } from './templates/build-routes.ts';
import { templateRoutes } from './templates/template-routes.ts';
import { readUploadToken } from './templates/upload-token.ts';
import { UnknownClientVersions } from './unknown-client-versions.ts';

export type { E2bDeps, PortServer, PreviewServer, TokenSeal } from './e2b-deps.ts';

const CONTROL_PREFIX = '/e2b';
const BOX_PREFIX = '/e2b-box';
/** Path of the URLs that the clients sign, which leave out the path of `E2B_SANDBOX_URL`. */
const SIGNED_PATH = '/files';
const UPLOAD_PATH = `${CONTROL_PREFIX}/template-files`;
const HEALTH_PATH = `${BOX_PREFIX}/health`;
const BOX_FILES_PATH = `${BOX_PREFIX}/files`;
/** Calls of Connect, whose clients read the code of an error by its name. */
const RPC_PATH = /^\/e2b-box\/(process\.Process|filesystem\.Filesystem)\//;

export type E2bFront =
  | '/e2b'
  | '/e2b/template-files'
  | '/e2b-box'
  | '/e2b-box/files'
  | '/e2b-box/health'
  | '/files'
  | 'ports of E2B';

/** Ports of a sandbox at which E2B's clients expect these services. */
const BOX_PORT = '49983';
const INTERPRETER_PORT = '49999';

/**
 * Answers E2B's clients, whose requests begin with `/e2b` (`E2B_API_URL`) and `/e2b-box` (`E2B_SANDBOX_URL`), the URLs
 * of files that they sign, and the hosts of ports that they name. Translates each to requests of `/v1` with the key of
 * the client, so that scopes, quotas and audit apply as to every client.
 */
export class E2bRouter {
  readonly #control: FastifyInstance;
  readonly #signedFiles: FastifyInstance;
  readonly #ports: ReadonlyMap<string, FastifyInstance>;
  readonly #apps: readonly FastifyInstance[];

  readonly #hosts: PortRouter;
  readonly #unknownVersions: UnknownClientVersions;

  readonly #deps: E2bDeps;
  readonly #urls: SignedUrls;

  private constructor(
    apps: Record<'control' | 'box' | 'interpreter' | 'signedFiles', FastifyInstance>,
    deps: E2bDeps,
    urls: SignedUrls,
  ) {
    this.#deps = deps;
    this.#urls = urls;
    this.#hosts = new PortRouter(deps);
    this.#unknownVersions = new UnknownClientVersions(deps.log);
    this.#control = apps.control;
    this.#signedFiles = apps.signedFiles;
    this.#ports = new Map([
      [BOX_PORT, apps.box],
      [INTERPRETER_PORT, apps.interpreter],
    ]);
    this.#apps = Object.values(apps);
  }

  static async open(given: E2bDeps): Promise<E2bRouter> {
    const tokens = new KnownTokens(given.seal, given.ownerOf);
    const deps = { ...given, seal: tokens };
    const urls = new SignedUrls(tokens);
    const apps = {
      control: await serve(deps, e2bError, async (app) => {
        await controlRoutes(app, deps);
        await templateRoutes(app, deps);
        await buildRoutes(app, given);
      }),
      box: await serve(deps, boxError, (app) => boxRoutes(app, deps, urls)),
      interpreter: await serve(deps, boxError, (app) => interpreterRoutes(app, deps)),
      signedFiles: await serve(deps, boxError, (app) => signedFileRoutes(app, deps, urls)),
    };
    return new E2bRouter(apps, deps, urls);
  }

  matches(request: IncomingMessage): boolean {
    const { url = '' } = request;
    return [CONTROL_PREFIX, BOX_PREFIX, SIGNED_PATH].some((path) => isBelow(url, path)) || this.#hosts.matches(request);
  }

  /** Returns the front of a request, as the service's table of them names it. */
  frontOf(request: IncomingMessage): E2bFront {
    const { pathname } = splitUrl(request);
    if (this.#hosts.matches(request)) return 'ports of E2B';
    if (isBelow(pathname, SIGNED_PATH)) return '/files';
    if (pathname === UPLOAD_PATH) return '/e2b/template-files';
    if (isBelow(pathname, CONTROL_PREFIX)) return '/e2b';
    if (pathname === HEALTH_PATH) return '/e2b-box/health';
    return pathname === BOX_FILES_PATH ? '/e2b-box/files' : '/e2b-box';
  }

  /** Returns the API key that a request uses; undefined if it needs none. @throws GatewayError 401, 403, 429 */
  async keyOf(request: IncomingMessage): Promise<string | undefined> {
    switch (this.frontOf(request)) {
      case 'ports of E2B':
        return this.#hosts.keyOf(request);
      case '/e2b-box/files':
        if (!isSigned(request)) return accessOf(request.headers, this.#deps).apiKey;
        return (await this.#urls.open(request, this.#deps.addressOf(request))).apiKey;
      case '/files':
        return (await this.#urls.open(request, this.#deps.addressOf(request))).apiKey;
      case '/e2b/template-files':
        return readUploadToken(splitUrl(request).query.get('token') ?? '', this.#deps.seal).apiKey;
      case '/e2b':
        return keyOf(request);
      case '/e2b-box/health':
        return undefined;
      default:
        return accessOf(request.headers, this.#deps).apiKey;
    }
  }

  /** Returns the answer to a request that is refused, as E2B's clients read it. */
  refusalOf({ url = '' }: IncomingMessage, error: unknown): Refusal {
    const { status, message, headers } = e2bError(error, this.#deps.log);
    const code = RPC_PATH.test(url) ? rpcCodeOf(status) : status;
    return {
      status,
      fields: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ code, message }),
    };
  }

  handle(request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    const { url = '', headers } = request;
    this.#unknownVersions.log(headers['user-agent']);
    if (this.#hosts.matches(request)) return this.#hosts.handle(request, response);
    if (isBelow(url, SIGNED_PATH)) this.#signedFiles.routing(request, response);
    else this.#handleBelow(isBelow(url, CONTROL_PREFIX) ? CONTROL_PREFIX : BOX_PREFIX, request, response);
  }

  /** Serves WebSockets of ports. The clients open no other ones. */
  upgrade(connection: LeavingConnection): void | Promise<void> {
    if (this.#hosts.matches(connection.request)) return this.#hosts.upgrade(connection);
    connection.refuse({ status: 404, body: '' });
  }

  async close(): Promise<void> {
    await Promise.all(this.#apps.map((app) => app.close()));
  }

  #handleBelow(prefix: string, request: IncomingMessage, response: ServerResponse): void {
    request.url = request.url?.slice(prefix.length) || '/';
    const app = prefix === CONTROL_PREFIX ? this.#control : this.#ports.get(portOf(request));
    if (app) {
      app.routing(request, response);
      return;
    }
    const message = `Port ${portOf(request)} of a sandbox is not served here; open a preview of it.`;
    response.writeHead(502, { 'content-type': 'application/json' }).end(JSON.stringify({ code: 502, message }));
  }
}

function splitUrl({ url = '' }: IncomingMessage): { pathname: string; query: URLSearchParams } {
  const mark = url.indexOf('?');
  if (mark === -1) return { pathname: url, query: new URLSearchParams() };
  return { pathname: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

function isBelow(url: string, prefix: string): boolean {
  return url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)));
}

function portOf({ headers }: IncomingMessage): string {
  const port = headers['e2b-sandbox-port'];
  return typeof port === 'string' ? port : BOX_PORT;
}

/** Builds an app that listens nowhere: the server passes it requests of its own port. */
async function serve(
  { log }: E2bDeps,
  translate: typeof e2bError,
  addRoutes: (app: FastifyInstance) => Promise<void>,
): Promise<FastifyInstance> {
  const answer = (error: unknown) => {
    const { status, message, headers } = translate(error, log);
    return { status, headers, body: { code: status, message } };
  };
  // Files may be large, so the rest of a refused one is not read.
  const app = gatewayApp({ log, bodyBytes: BODY_BYTES, unknownStatus: 501, answer, readsRest: false });
  await addRoutes(app);
  await app.ready();
  return app;
}
