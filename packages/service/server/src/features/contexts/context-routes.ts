import { answerKernelMessage, operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import type { ChangeContext } from './change-context.ts';
import { type ContextRecord, toCodeContext } from './context.ts';
import type { CreateContext } from './create-context.ts';

export function contextRoutes(createContext: CreateContext, changeContext: ChangeContext): Route[] {
  const answer = (record: ContextRecord) => ({ context: toCodeContext(record) });
  return [
    route(operations.createContext, async (request) => answer(await createContext.create(request))),
    listRoute(operations.listContexts, ({ credential, params }) => changeContext.list(credential, params.sandboxId)),
    route(operations.getContext, async (request) => answer(await changeContext.get(request))),
    route(operations.deleteContext, async (request) => answer(await changeContext.delete(request))),
    route(operations.interruptContext, async (request) => answer(await changeContext.interrupt(request))),
    route(answerKernelMessage, async (request) => answer(await changeContext.answer(request, request.body.message))),
    route(operations.restartContext, async (request) => answer(await changeContext.restart(request))),
  ];
}
