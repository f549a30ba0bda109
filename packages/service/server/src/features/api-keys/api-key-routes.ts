import { operations } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { toApiKey } from '../../platform/keys/api-key.ts';
import { toProject } from '../../platform/tenancy/project.ts';
import type { KeyWithSecret, ManageApiKeys } from './manage-api-keys.ts';

export function apiKeyRoutes(keys: ManageApiKeys): Route[] {
  return [
    route(operations.createApiKey, async (request) => withSecret(await keys.create(request, request.body))),
    listRoute(operations.listApiKeys, ({ credential, query }) => keys.list(credential, query.include)),
    route(operations.getCurrentApiKey, async ({ credential }) => {
      const { apiKey, org, project } = await keys.current(credential);
      return {
        apiKey: toApiKey(apiKey),
        organization: { id: org.id, name: org.name, createdAt: timestamp(org.createdAt) },
        project: toProject(project),
      };
    }),
    route(operations.getApiKey, async ({ credential, params }) => ({
      apiKey: toApiKey(await keys.get(credential, params.apiKeyId)),
    })),
    route(operations.rotateApiKey, async (request) =>
      withSecret(await keys.rotate(request, request.params.apiKeyId, request.body)),
    ),
    route(operations.revokeApiKey, async (request) => ({
      apiKey: toApiKey(await keys.revoke(request, request.params.apiKeyId)),
    })),
  ];
}

function withSecret({ apiKey, secret }: KeyWithSecret) {
  return { apiKey: toApiKey(apiKey), secret };
}
