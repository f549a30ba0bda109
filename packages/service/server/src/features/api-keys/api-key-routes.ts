import { operations } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { toApiKey } from '../../platform/keys/api-key.ts';
import { toProject } from '../../platform/tenancy/project.ts';
import type { KeyWithSecret, ManageApiKeys } from './manage-api-keys.ts';

export function apiKeyRoutes(keys: ManageApiKeys): Route[] {
  return [
    route(operations.createApiKey, async ({ call, body }) => withSecret(await keys.create(call, body))),
    listRoute(operations.listApiKeys, ({ call, query }) => keys.list(call, query.include)),
    route(operations.getCurrentApiKey, async ({ call }) => {
      const { apiKey, org, project } = await keys.current(call);
      return {
        apiKey: toApiKey(apiKey),
        organization: { id: org.id, name: org.name, createdAt: timestamp(org.createdAt) },
        project: toProject(project),
      };
    }),
    route(operations.getApiKey, async ({ call, params }) => ({
      apiKey: toApiKey(await keys.get(call, params.apiKeyId)),
    })),
    route(operations.rotateApiKey, async ({ call, params, body }) =>
      withSecret(await keys.rotate(call, params.apiKeyId, body)),
    ),
    route(operations.revokeApiKey, async ({ call, params }) => ({
      apiKey: toApiKey(await keys.revoke(call, params.apiKeyId)),
    })),
  ];
}

function withSecret({ apiKey, secret }: KeyWithSecret) {
  return { apiKey: toApiKey(apiKey), secret };
}
