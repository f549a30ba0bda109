import { LIMITS, operations, type Sandbox } from '@cloche/contract';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type RequestContext, type Route, route } from '../../../platform/http/route.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxAccess } from '../../sandbox-records/sandbox-access.ts';
import { type SharedActivity, showSandboxes } from '../../sandbox-records/shared-activity.ts';
import type { CreateSandbox } from '../lifecycle/create-sandbox.ts';
import type { DestroySandbox } from '../lifecycle/destroy-sandbox.ts';
import type { SetSandboxTtl } from '../lifecycle/set-sandbox-ttl.ts';
import type { AwaitSandbox } from '../use/await-sandbox.ts';
import type { ListSandboxes } from './list-sandboxes.ts';

export interface SandboxRoutesDeps {
  readonly access: SandboxAccess;
  readonly createSandbox: CreateSandbox;
  readonly listSandboxes: ListSandboxes;
  readonly awaitSandbox: AwaitSandbox;
  readonly setSandboxTtl: SetSandboxTtl;
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
    credential,
    params,
    body,
    audit,
  }: Pick<RequestContext<typeof operations.setSandboxTtl>, 'credential' | 'params' | 'body' | 'audit'>) =>
    answer(await setSandboxTtl.set(credential, params.sandboxId, body.ttlMs, audit));

  return [
    route(operations.createSandbox, async (request) => answer(await createSandbox.create(request))),
    listRoute(operations.listSandboxes, ({ credential, query }) => listSandboxes.open(credential, query)),
    route(operations.getSandbox, async ({ credential, params, query, signal }) => {
      const record = await access.get(credential, params.sandboxId);
      if (query.waitFor === undefined) return answer(record);
      const waitMs = query.waitMs ?? LIMITS.waitDefaultMs;
      return answer(await awaitSandbox.status(record.id, query.waitFor, waitMs, signal));
    }),
    route(operations.setSandboxTtl, setTtl),
    route(operations.extendSandbox, setTtl),
    route(operations.killSandbox, async ({ credential, params, audit }) => {
      const record = await access.get(credential, params.sandboxId);
      return answer(await destroySandbox.destroy(record.id, 'user_killed', undefined, audit));
    }),
  ];
}
