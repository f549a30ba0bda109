import { operations, sendKernelMessage } from '@cloche/contract';
import { type RequestContext, type Route, route, streamRoute } from '../../platform/http/route.ts';
import type { LookUpRun } from './look-up-run.ts';
import type { LookedUpRun } from './resolve-run.ts';
import type { RunCode } from './run-code.ts';

type RunField = 'params' | 'body' | 'lookedUp';

/** @param lookUpRun undefined where look-ups take no time, so that they need not begin before the claim of a request */
export function runRoutes(runs: RunCode, lookUpRun: LookUpRun | undefined): Route[] {
  const lookUp = lookUpRun && ((...request: Parameters<LookUpRun['lookUp']>) => lookUpRun.lookUp(...request));
  // Sound: `lookUp` returned it.
  const requestOf = ({ params, body, lookedUp }: Pick<RequestContext<typeof operations.runCode>, RunField>) => ({
    params,
    body,
    lookedUp: lookedUp as LookedUpRun | undefined,
  });
  return [
    route(operations.runCode, async (request) => ({ run: await runs.run(request.call, requestOf(request)) }), lookUp),
    streamRoute(operations.streamCode, (request) => runs.stream(request.call, requestOf(request)), lookUp),
    streamRoute(sendKernelMessage, ({ call, params, body }) =>
      runs.converse(call, { params, body: { ...body, contextId: params.contextId, code: '' } }),
    ),
  ];
}
