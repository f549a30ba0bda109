import { operations } from '@cloche/contract';
import type { Clock } from '../../platform/base/clock.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { toWebhook, type WebhookRecord } from './webhook.ts';
import type { WebhookService, WebhookWithSecret } from './webhook-service.ts';

const PAGE_DELIVERIES = 100;

export function webhookRoutes(service: WebhookService, clock: Clock): Route[] {
  const shown = (record: WebhookRecord) => toWebhook(record, clock.now());
  const answer = (record: WebhookRecord) => ({ webhook: shown(record) });
  const withSecret = ({ webhook, secret }: WebhookWithSecret) => ({ ...answer(webhook), secret });
  return [
    route(operations.createWebhook, async ({ call, body }) => withSecret(await service.create(call, body))),
    listRoute(operations.listWebhooks, ({ call, query }) => service.list(call, query.projectId)),
    route(operations.getWebhook, async ({ call, params }) => answer(await service.get(call, params.webhookId))),
    route(operations.updateWebhook, async ({ call, params, body }) =>
      answer(await service.update(call, params.webhookId, body)),
    ),
    route(operations.deleteWebhook, async ({ call, params }) => answer(await service.delete(call, params.webhookId))),
    route(operations.rotateWebhookSecret, async ({ call, params }) =>
      withSecret(await service.rotateSecret(call, params.webhookId)),
    ),
    route(operations.testWebhook, async ({ call, params }) => ({
      delivery: await service.test(call, params.webhookId),
    })),
    route(operations.listWebhookDeliveries, ({ call, params, query }) =>
      service.listDeliveries(call, params.webhookId, {
        afterSeq: query.afterSeq ?? 0,
        limit: query.limit ?? PAGE_DELIVERIES,
      }),
    ),
    route(operations.resendWebhookDelivery, async ({ call, params }) => ({
      delivery: await service.resend(call, params.webhookId, params.deliveryId),
    })),
  ];
}
