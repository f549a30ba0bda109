import type { IncomingMessage, ServerResponse } from 'node:http';
import type { GatewayError } from '@cloche/kit';
import { answerFailures, gatewayApp, readJsonBodies } from '@cloche/kit/gateway-app';
import type { Refusal } from '@cloche/node-support';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { z } from 'zod';
import { keyOf } from './client-key.ts';
import { DifyBody, difyRoutes, refuseDify } from './dify.ts';
import { PistonBody, pistonRoutes, refusePiston } from './piston.ts';
import { runApiError } from './run-api-error.ts';
import type { RunApisDeps } from './run-apis-deps.ts';
import { ProgramRunner } from './run-program.ts';
import { type RunRequest, runRequests } from './run-request.ts';
import { refuseSandboxFusion, SandboxFusionBody, sandboxFusionRoutes } from './sandbox-fusion.ts';
import { BODY_BYTES } from './text-bounds.ts';

export type { RunApisDeps } from './run-apis-deps.ts';

export interface RunApiRefusal {
  readonly status: number;
  readonly body?: object;
}

interface RunApiParts {
  /** Body of its requests. */
  readonly body: z.ZodObject;
  readonly routes: (app: FastifyInstance, run: RunRequest) => void;
  /** Returns the answer of a refusal, in the form of the API. */
  readonly refuse: (error: GatewayError) => RunApiRefusal;
}

/** APIs of one route that runs a program, by the prefixes of their paths. */
export const RUN_APIS = {
  dify: { body: DifyBody, routes: difyRoutes, refuse: refuseDify },
  piston: { body: PistonBody, routes: pistonRoutes, refuse: refusePiston },
  'sandbox-fusion': { body: SandboxFusionBody, routes: sandboxFusionRoutes, refuse: refuseSandboxFusion },
} as const satisfies Record<string, RunApiParts>;
export type RunApi = keyof typeof RUN_APIS;

/** Says that Dify's API is there. */
const HEALTH = /^\/dify\/health(?:\?|$)/;
/** Most values of a request: files and arguments. */
const MAX_VALUES = 10_000;

/**
 * Answers clients of APIs that run one program and return its output: `/dify`, `/piston`, `/sandbox-fusion`. Each
 * program runs in a sandbox of its own. Translates to requests of `/v1` with the client's key, so that scopes, quotas
 * and audit apply as to every client.
 */
export class RunApisRouter {
  readonly #app: FastifyInstance;
  readonly #runner: ProgramRunner;
  readonly #path: RegExp;

  readonly #log: Logger;

  private constructor(
    app: FastifyInstance,
    { runner, log }: { readonly runner: ProgramRunner; readonly log: Logger },
    apis: readonly RunApi[],
  ) {
    this.#app = app;
    this.#runner = runner;
    this.#log = log;
    this.#path = new RegExp(`^/(${apis.join('|')})([/?]|$)`);
  }

  /** @param apis those that are answered */
  static async open(deps: RunApisDeps, apis: readonly RunApi[]): Promise<RunApisRouter> {
    const runner = new ProgramRunner();
    const { log } = deps;
    const answer = (error: unknown) => {
      const { status, headers, message } = runApiError(error, log);
      return { status, headers, body: { message } };
    };
    const app = gatewayApp({ log, bodyBytes: BODY_BYTES, answer, readsRest: true });
    for (const api of apis)
      await app.register(async (scope) => serve(scope, RUN_APIS[api], runRequests(api, runner, deps), deps), {
        prefix: `/${api}`,
      });
    await app.ready();
    return new RunApisRouter(app, { runner, log }, apis);
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return this.#path.test(url);
  }

  /** Returns the front of a request, as the service's table of them names it. */
  frontOf({ method, url = '' }: IncomingMessage): 'run APIs' | '/dify/health' {
    return method === 'GET' && HEALTH.test(url) ? '/dify/health' : 'run APIs';
  }

  /** Returns the API key of a request; undefined if it needs none. @throws GatewayError 401 */
  keyOf(request: IncomingMessage): string | undefined {
    return this.frontOf(request) === 'run APIs' ? keyOf(request) : undefined;
  }

  /** Returns the answer to a request that is refused, in the form of its API. */
  refusalOf({ url = '' }: IncomingMessage, error: unknown): Refusal {
    const refusal = runApiError(error, this.#log);
    const [, name = ''] = this.#path.exec(url) ?? [];
    // Sound: `matches` has found the name.
    const { status, body } = RUN_APIS[name as RunApi].refuse(refusal);
    const fields = { ...refusal.headers, 'content-type': 'application/json' };
    return { status, fields, body: body === undefined ? '' : JSON.stringify(body) };
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
  const answer = (error: unknown) => {
    const refusal = runApiError(error, log);
    const { status, body } = refuse(refusal);
    return { status, headers: refusal.headers, body };
  };
  answerFailures(app, { answer, readsRest: true });
  readJsonBodies(app, { type: 'application/json', mostValues: MAX_VALUES });
  // Before a body is read: a request without a key gets no further.
  app.addHook('onRequest', async (request) => {
    if (request.method === 'POST') keyOf(request);
  });
  routes(app, run);
}
