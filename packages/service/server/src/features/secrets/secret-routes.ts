import { operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { type SecretRecord, toSecret } from './secret.ts';
import type { SecretService } from './secret-service.ts';

export function secretRoutes(service: SecretService): Route[] {
  const answer = (record: SecretRecord) => ({ secret: toSecret(record) });
  return [
    route(operations.createSecret, async (request) => answer(await service.create(request))),
    listRoute(operations.listSecrets, ({ credential, query }) => service.list(credential, query.projectId)),
    route(operations.getSecret, async ({ credential, params }) =>
      answer(await service.get(credential, params.secretId)),
    ),
    route(operations.updateSecret, async ({ credential, params, body, audit }) =>
      answer(await service.update(credential, params.secretId, body, audit)),
    ),
    route(operations.deleteSecret, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.secretId, audit)),
    ),
  ];
}
