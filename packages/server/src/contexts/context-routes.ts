import { operations } from '@cloche/contract';
import { type Route, route } from '../http/route.ts';
import type { ChangeContext } from './change-context.ts';
import { type ContextRecord, toCodeContext } from './context.ts';
import type { CreateContext } from './create-context.ts';

export function contextRoutes(creations: CreateContext, changes: ChangeContext): Route[] {
  const answer = (record: ContextRecord) => ({ context: toCodeContext(record) });
  return [
    route(operations.createContext, async (request) => answer(await creations.create(request))),
    route(operations.listContexts, async ({ credential, params }) => {
      const records = await changes.list(credential, params.sandboxId);
      return { data: records.map(toCodeContext), hasMore: false };
    }),
    route(operations.getContext, async (request) => answer(await changes.get(request))),
    route(operations.deleteContext, async (request) => answer(await changes.delete(request))),
    route(operations.interruptContext, async (request) => answer(await changes.interrupt(request))),
    route(operations.restartContext, async (request) => answer(await changes.restart(request))),
  ];
}
