import { answerKernelMessage, operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import type { ChangeContext } from './change-context.ts';
import { type ContextRecord, toCodeContext } from './context.ts';
import type { CreateContext } from './create-context.ts';

export function contextRoutes(createContext: CreateContext, changeContext: ChangeContext): Route[] {
  const answer = (record: ContextRecord) => ({ context: toCodeContext(record) });
  return [
    route(operations.createContext, async ({ call, params, body }) =>
      answer(await createContext.create(call, params.sandboxId, body)),
    ),
    listRoute(operations.listContexts, ({ call, params }) => changeContext.list(call, params.sandboxId)),
    route(operations.getContext, async ({ call, params }) => answer(await changeContext.get(call, params))),
    route(operations.deleteContext, async ({ call, params }) => answer(await changeContext.delete(call, params))),
    route(operations.interruptContext, async ({ call, params }) => answer(await changeContext.interrupt(call, params))),
    route(answerKernelMessage, async ({ call, params, body }) =>
      answer(await changeContext.answer(call, params, body.message)),
    ),
    route(operations.restartContext, async ({ call, params }) => answer(await changeContext.restart(call, params))),
  ];
}
