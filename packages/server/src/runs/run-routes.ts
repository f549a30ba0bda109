import { operations, sendKernelMessage } from '@cloche/contract';
import { type Route, route, streamRoute } from '../http/route.ts';
import type { RunCode } from './run-code.ts';

export function runRoutes(runs: RunCode): Route[] {
  return [
    route(operations.runCode, async (request) => ({ run: await runs.run(request) })),
    streamRoute(operations.streamCode, (request) => runs.stream(request)),
    streamRoute(sendKernelMessage, ({ body, ...request }) =>
      runs.converse({ ...request, body: { ...body, contextId: request.params.contextId, code: '' } }),
    ),
  ];
}
