import { operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { type SecretRecord, toSecret } from './secret.ts';
import type { SecretService } from './secret-service.ts';

export function secretRoutes(service: SecretService): Route[] {
  const answer = (record: SecretRecord) => ({ secret: toSecret(record) });
  return [
    route(operations.createSecret, async ({ call, body }) => answer(await service.create(call, body))),
    listRoute(operations.listSecrets, ({ call, query }) => service.list(call, query.projectId)),
    route(operations.getSecret, async ({ call, params }) => answer(await service.get(call, params.secretId))),
    route(operations.updateSecret, async ({ call, params, body }) =>
      answer(await service.update(call, params.secretId, body)),
    ),
    route(operations.deleteSecret, async ({ call, params }) => answer(await service.delete(call, params.secretId))),
  ];
}
