/** The API with handlers that return their input, and an assertion for its error responses. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type CodeRun, ERRORS, type ErrorCode, operations, type Sandbox } from '@cloche/contract';
import { notFound } from '../src/platform/base/app-error.ts';
import { route } from '../src/platform/http/route.ts';
import type { ApiAnswer, ApiCall } from './call-api.ts';
import { startTestService, type TestService } from './test-service.ts';

export interface EchoService extends TestService {
  /** Number of sandboxes that were created. */
  readonly made: number;
  /** Lets creations fail with `error` from now on; undefined lets them succeed. */
  failWith(error: Error | undefined): void;
}

// The app sends what a handler returns without a check, so parts of a resource are enough.
const sandbox = (fields: object) => ({ sandbox: fields as Sandbox });
const run = (fields: object) => ({ run: fields as CodeRun });

export async function startEchoService(): Promise<EchoService> {
  let made = 0;
  let failure: Error | undefined;
  const service = await startTestService([
    route(operations.createSandbox, async ({ body }) => {
      if (failure) throw failure;
      made++;
      return sandbox({ made, body });
    }),
    route(operations.listSandboxes, async ({ query }) => ({
      data: [{ query }] as unknown as Sandbox[],
      hasMore: false,
    })),
    route(operations.getSandbox, async ({ params, query }) => {
      if (params.sandboxId !== 'sbx_1') throw notFound('sandbox', params.sandboxId);
      return sandbox({ id: params.sandboxId, query });
    }),
    route(operations.killSandbox, async ({ params }) => sandbox({ id: params.sandboxId })),
    route(operations.extendSandbox, async ({ body }) => sandbox(body)),
    route(operations.interruptContext, async () => ({ context: {} as never })),
    route(operations.runCode, async ({ body }) => run({ stdout: body.code })),
  ]);
  return {
    ...service,
    get made() {
      return made;
    },
    failWith: (error) => {
      failure = error;
    },
  };
}

/** Asserts that the answer is the documented one of `code`, matches `names`, and reveals no internals. */
export function assertError(answer: ApiAnswer, code: ErrorCode, names: RegExp): void {
  assert.deepEqual([answer.status, answer.body?.error?.code], [ERRORS[code].status, code], answer.text);
  const { error } = answer.body;
  assert.match(`${error.message} ${JSON.stringify(error.details ?? '')}`, names);
  assert.equal(error.requestId, answer.headers.get('x-request-id'));
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  assert.doesNotMatch(answer.text, /node_modules|at .*\.ts|FST_|SQLITE/);
}

export const pythonCode = (rest: object = {}) => ({ code: '1', language: 'python', ...rest });

/** The arguments of a call that runs code. */
export const runs = (body: unknown): [string, string, ApiCall] => [
  'POST',
  '/v1/sandboxes/sbx_1/code/runs',
  { body, idempotencyKey: randomUUID() },
];
