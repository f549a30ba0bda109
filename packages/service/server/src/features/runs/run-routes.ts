import { operations, sendKernelMessage } from '@cloche/contract';
import { type Route, route, streamRoute } from '../../platform/http/route.ts';
import type { LookUpRun } from './look-up-run.ts';
import type { LookedUpRun } from './resolve-run.ts';
import type { RunCode } from './run-code.ts';

/** @param lookUpRun undefined where look-ups take no time, so that they need not begin before the claim of a request */
export function runRoutes(runs: RunCode, lookUpRun: LookUpRun | undefined): Route[] {
  const lookUp = lookUpRun && ((...request: Parameters<LookUpRun['lookUp']>) => lookUpRun.lookUp(...request));
  // Sound: `lookUp` returned it.
  const withLookUp = <R extends { readonly lookedUp?: unknown }>(request: R) => ({
    ...request,
    lookedUp: request.lookedUp as LookedUpRun | undefined,
  });
  return [
    route(operations.runCode, async (request) => ({ run: await runs.run(withLookUp(request)) }), lookUp),
    streamRoute(operations.streamCode, (request) => runs.stream(withLookUp(request)), lookUp),
    streamRoute(sendKernelMessage, ({ body, ...request }) =>
      runs.converse({
        ...request,
        lookedUp: undefined,
        body: { ...body, contextId: request.params.contextId, code: '' },
      }),
    ),
  ];
}
