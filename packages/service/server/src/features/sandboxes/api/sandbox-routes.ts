import { LIMITS, operations, type Sandbox } from '@cloche/contract';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type RequestContext, type Route, route } from '../../../platform/http/route.ts';
import type { PauseSandbox } from '../../pauses/pause-sandbox.ts';
import type { ResumeSandbox } from '../../pauses/resume-sandbox.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxAccess } from '../../sandbox-records/sandbox-access.ts';
import { type SharedActivity, showSandboxes } from '../../sandbox-records/shared-activity.ts';
import type { CreateSandbox } from '../lifecycle/create-sandbox.ts';
import type { DestroySandbox } from '../lifecycle/destroy-sandbox.ts';
import type { NamedSandboxes } from '../lifecycle/named-sandboxes.ts';
import type { SetSandboxTtl } from '../lifecycle/set-sandbox-ttl.ts';
import type { UpdateSandbox } from '../lifecycle/update-sandbox.ts';
import type { AwaitSandbox } from '../use/await-sandbox.ts';
import type { ListSandboxes } from './list-sandboxes.ts';

export interface SandboxRoutesDeps {
  readonly access: SandboxAccess;
  readonly createSandbox: CreateSandbox;
  readonly namedSandboxes: NamedSandboxes;
  readonly updateSandbox: UpdateSandbox;
  readonly listSandboxes: ListSandboxes;
  readonly awaitSandbox: AwaitSandbox;
  readonly setSandboxTtl: SetSandboxTtl;
  readonly pauseSandbox: PauseSandbox;
  readonly resumeSandbox: ResumeSandbox;
  readonly destroySandbox: DestroySandbox;
  readonly activity: SharedActivity;
}

export function sandboxRoutes(services: SandboxRoutesDeps): Route[] {
  const { access, createSandbox, listSandboxes, awaitSandbox, setSandboxTtl, destroySandbox, activity } = services;
  const answer = async (record: SandboxRecord) => {
    const [sandbox] = await showSandboxes([record], activity);
    return { sandbox: sandbox as Sandbox };
  };
  const setTtl = async ({
    call,
    params,
    body,
  }: Pick<RequestContext<typeof operations.setSandboxTtl>, 'call' | 'params' | 'body'>) =>
    answer(await setSandboxTtl.set(call, params.sandboxId, body.ttlMs));

  return [
    route(operations.createSandbox, async ({ call, body }) =>
      answer(await createSandbox.create(call, { body, isClients: true })),
    ),
    route(operations.getOrCreateSandbox, async ({ call, params, body }) => {
      const { record, created } = await services.namedSandboxes.getOrCreate(call, params.name, body);
      return { ...(await answer(record)), created };
    }),
    route(operations.getSandboxByName, async ({ call, params, query }) =>
      answer(await services.namedSandboxes.get(call, params.name, query.projectId)),
    ),
    route(operations.updateSandbox, async ({ call, params, body }) =>
      answer(await services.updateSandbox.update(call, params.sandboxId, body)),
    ),
    listRoute(operations.listSandboxes, ({ call, query }) => listSandboxes.open(call, query)),
    route(operations.getSandbox, async ({ call, params, query }) => {
      const record = await access.get(call.credential, params.sandboxId);
      if (query.waitFor === undefined) return answer(record);
      const waitMs = query.waitMs ?? LIMITS.waitDefaultMs;
      return answer(await awaitSandbox.status(record.id, query.waitFor, waitMs, call.signal));
    }),
    route(operations.setSandboxTtl, setTtl),
    route(operations.extendSandbox, setTtl),
    route(operations.pauseSandbox, async ({ call, params, body }) =>
      answer(await services.pauseSandbox.pause(call, params.sandboxId, body)),
    ),
    route(operations.resumeSandbox, async ({ call, params, body }) =>
      answer(await services.resumeSandbox.resume(call, params.sandboxId, body)),
    ),
    route(operations.killSandbox, async ({ call, params }) => {
      const record = await access.get(call.credential, params.sandboxId);
      return answer(await destroySandbox.destroy(call, record.id, 'user_killed'));
    }),
  ];
}
