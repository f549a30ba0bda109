import type { IncomingMessage, ServerResponse } from 'node:http';
import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, LogController } from 'fastify';
import { difyRoutes, refuseDify } from './dify.ts';
import { pistonRoutes, refusePiston } from './piston.ts';
import { RunApiError } from './run-api-error.ts';
import type { RunApisDeps } from './run-apis-deps.ts';
import { ProgramRunner } from './run-program.ts';
import { type RunRequest, runRequests } from './run-request.ts';
import { refuseSandboxFusion, sandboxFusionRoutes } from './sandbox-fusion.ts';

export type { RunApisDeps } from './run-apis-deps.ts';

interface RunApiParts {
  readonly routes: (app: FastifyInstance, run: RunRequest) => void;
  /** Sends a refusal in the form of the API. */
  readonly refuse: (error: RunApiError, reply: FastifyReply) => FastifyReply;
}

/** APIs of one route that runs a program, by the prefixes of their paths. */
const RUN_APIS = {
  dify: { routes: difyRoutes, refuse: refuseDify },
  piston: { routes: pistonRoutes, refuse: refusePiston },
  'sandbox-fusion': { routes: sandboxFusionRoutes, refuse: refuseSandboxFusion },
} as const satisfies Record<string, RunApiParts>;
export type RunApi = keyof typeof RUN_APIS;

const BODY_BYTES = 16 * 1024 * 1024;

/**
 * Answers clients of APIs that run one program and return its output: `/dify`, `/piston`, `/sandbox-fusion`. Each
 * program runs in a sandbox of its own. Translates to requests of `/v1` with the client's key, so that scopes, quotas
 * and audit apply as to every client.
 */
export class RunApisRouter {
  readonly #app: FastifyInstance;
  readonly #runner: ProgramRunner;
  readonly #path: RegExp;

  private constructor(app: FastifyInstance, runner: ProgramRunner, apis: readonly RunApi[]) {
    this.#app = app;
    this.#runner = runner;
    this.#path = new RegExp(`^/(${apis.join('|')})([/?]|$)`);
  }

  /** @param apis those that are answered */
  static async open(deps: RunApisDeps, apis: readonly RunApi[]): Promise<RunApisRouter> {
    const runner = new ProgramRunner();
    const app = fastify({
      loggerInstance: deps.log as FastifyBaseLogger,
      logController: new LogController({ disableRequestLogging: true }),
      bodyLimit: BODY_BYTES,
    });
    for (const api of apis)
      await app.register(async (scope) => serve(scope, RUN_APIS[api], runRequests(api, runner, deps), deps), {
        prefix: `/${api}`,
      });
    app.setNotFoundHandler((request, reply) => {
      const message = `Cloche does not answer ${request.method} ${request.url.split('?', 1)[0]}.`;
      return reply.code(404).send({ message });
    });
    await app.ready();
    return new RunApisRouter(app, runner, apis);
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return this.#path.test(url);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#app.routing(request, response);
  }

  async close(): Promise<void> {
    await this.#app.close();
    await this.#runner.close();
  }
}

function serve(app: FastifyInstance, { routes, refuse }: RunApiParts, run: RunRequest, { log }: RunApisDeps): void {
  app.setErrorHandler((error, { raw }, reply) => {
    const refusal = RunApiError.of(error, log);
    // Reads the rest of a body that is too large: closing the connection while the client writes could lose the
    // response.
    reply.removeHeader('connection');
    raw.resume();
    if (refusal.retryAfter !== undefined) reply.header('retry-after', refusal.retryAfter);
    return refuse(refusal, reply);
  });
  routes(app, run);
}
