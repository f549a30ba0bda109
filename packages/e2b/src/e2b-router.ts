import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { boxRoutes } from './box/box-routes.ts';
import { interpreterRoutes } from './box/interpreter-routes.ts';
import { controlRoutes } from './control/control-routes.ts';
import type { E2bDeps } from './e2b-deps.ts';
import { E2bError } from './e2b-error.ts';

export type { E2bDeps, TokenSeal } from './e2b-deps.ts';

const CONTROL_PREFIX = '/e2b';
const BOX_PREFIX = '/e2b-box';
/** Ports of a sandbox at which E2B's clients expect these services. */
const BOX_PORT = '49983';
const INTERPRETER_PORT = '49999';
const BODY_BYTES = 8 * 1024 * 1024;

/**
 * Answers E2B's clients, whose requests begin with `/e2b` (`E2B_API_URL`) and `/e2b-box` (`E2B_SANDBOX_URL`). Translates
 * each to requests of `/v1` with the key of the client, so that scopes, quotas and audit apply as to every client.
 */
export class E2bRouter {
  readonly #control: RequestListener;
  readonly #ports: ReadonlyMap<string, RequestListener>;
  readonly #apps: readonly FastifyInstance[];

  private constructor(apps: { control: ServedApp; box: ServedApp; interpreter: ServedApp }) {
    this.#control = apps.control.handle;
    this.#ports = new Map([
      [BOX_PORT, apps.box.handle],
      [INTERPRETER_PORT, apps.interpreter.handle],
    ]);
    this.#apps = Object.values(apps).map(({ app }) => app);
  }

  static async open(deps: E2bDeps): Promise<E2bRouter> {
    return new E2bRouter({
      control: await serve(deps, (app) => controlRoutes(app, deps)),
      box: await serve(deps, (app) => boxRoutes(app, deps)),
      interpreter: await serve(deps, (app) => interpreterRoutes(app, deps)),
    });
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return isBelow(url, CONTROL_PREFIX) || isBelow(url, BOX_PREFIX);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const prefix = isBelow(request.url ?? '', CONTROL_PREFIX) ? CONTROL_PREFIX : BOX_PREFIX;
    request.url = request.url?.slice(prefix.length) || '/';
    const handle = prefix === CONTROL_PREFIX ? this.#control : this.#ports.get(portOf(request));
    if (handle) {
      handle(request, response);
      return;
    }
    const message = `Port ${portOf(request)} of a sandbox is not served here; open a preview of it.`;
    response.writeHead(502, { 'content-type': 'application/json' }).end(JSON.stringify({ code: 502, message }));
  }

  async close(): Promise<void> {
    await Promise.all(this.#apps.map((app) => app.close()));
  }
}

function isBelow(url: string, prefix: string): boolean {
  return url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)));
}

function portOf({ headers }: IncomingMessage): string {
  const port = headers['e2b-sandbox-port'];
  return typeof port === 'string' ? port : BOX_PORT;
}

interface ServedApp {
  readonly app: FastifyInstance;
  readonly handle: RequestListener;
}

/** Builds an app that listens nowhere: the server passes it requests of its own port. */
async function serve({ log }: E2bDeps, addRoutes: (app: FastifyInstance) => Promise<void>): Promise<ServedApp> {
  let handle: RequestListener | undefined;
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_BYTES,
    serverFactory: (listener: RequestListener) => {
      handle = listener;
      return createServer(listener);
    },
  });
  app.setErrorHandler((error, _request, reply) => {
    const { status, message, headers } = E2bError.of(error, log);
    return reply.code(status).headers(headers).send({ code: status, message });
  });
  app.setNotFoundHandler((request, reply) => {
    const message = `Cloche does not answer ${request.method} ${request.url.split('?', 1)[0]} yet.`;
    return reply.code(501).send({ code: 501, message });
  });
  await addRoutes(app);
  await app.ready();
  if (!handle) throw new Error('the app has no listener');
  return { app, handle };
}
