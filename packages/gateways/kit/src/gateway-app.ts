import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, LogController } from 'fastify';
import type { Logger } from 'pino';
import { GatewayError } from './gateway-error.ts';
import { readJson } from './read-json.ts';

/** The answer to a request that failed, as the clients of a protocol read it. */
export interface FailureAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object | undefined;
}

export interface FailureOptions {
  /** Translates the error of a request. */
  readonly answer: (error: unknown) => FailureAnswer;
  /**
   * Whether the rest of a refused body is read: a client that is still writing may lose the answer if its connection is
   * closed. False for an app that receives uploads.
   */
  readonly readsRest: boolean;
}

export interface GatewayAppOptions extends FailureOptions {
  readonly log: Logger;
  /** Largest body that is read whole. */
  readonly bodyBytes: number;
  /** Status of the answer to a path that the protocol does not have here. Default: 404. */
  readonly unknownStatus?: number;
  readonly ignoresTrailingSlash?: boolean;
}

/**
 * Builds the app of a gateway. It listens nowhere: the server passes it requests of its own port. The caller adds
 * routes, awaits `ready`, and closes it.
 */
export function gatewayApp(options: GatewayAppOptions): FastifyInstance {
  const { log, bodyBytes, unknownStatus = 404, ignoresTrailingSlash = false } = options;
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytes,
    // Otherwise HEAD runs the handler of GET, and reads a file to its end for nothing.
    exposeHeadRoutes: false,
    // Checking the schemas themselves takes most of the time that their compilation takes at each start.
    // A number where a text belongs is refused, as by the services of these clients, and not turned into a text.
    ajv: { customOptions: { validateSchema: false, coerceTypes: false } },
    routerOptions: { ignoreTrailingSlash: ignoresTrailingSlash },
  });
  answerFailures(app, options);
  app.setNotFoundHandler(({ method, url }) => {
    throw new GatewayError(unknownStatus, `Cloche does not answer ${method} ${url.split('?', 1)[0]}.`);
  });
  return app;
}

/** Answers the failures of an app, or of a part of one whose clients read others. */
export function answerFailures(app: FastifyInstance, { answer, readsRest }: FailureOptions): void {
  app.setErrorHandler((error, { raw }, reply) => {
    const { status, headers, body } = answer(error);
    if (readsRest) {
      reply.removeHeader('connection');
      raw.resume();
    }
    return reply.code(status).headers(headers).send(body);
  });
}

export interface JsonBodies {
  /** Content type of the bodies; `*` for any. */
  readonly type: string;
  readonly mostValues: number;
  /** Whether a request has a body that its handler reads. Default: each. The body of another is null. */
  readonly isRead?: (request: FastifyRequest) => boolean;
}

/** Reads bodies as JSON. An empty one is null: clients name the types of bodies that they do not send. */
export function readJsonBodies(app: FastifyInstance, { type, mostValues, isRead }: JsonBodies): void {
  if (type === '*') app.removeAllContentTypeParsers();
  else app.removeContentTypeParser(type);
  app.addContentTypeParser(type, { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const isNeeded = body.length > 0 && (isRead?.(request) ?? true);
      // Sound: `parseAs` makes it a buffer.
      done(null, isNeeded ? readJson(body as Buffer, mostValues) : null);
    } catch (error) {
      done(error as GatewayError);
    }
  });
}
