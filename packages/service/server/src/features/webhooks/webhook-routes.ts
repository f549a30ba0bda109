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
    route(operations.createWebhook, async (request) => withSecret(await service.create(request))),
    listRoute(operations.listWebhooks, ({ credential, query }) => service.list(credential, query.projectId)),
    route(operations.getWebhook, async ({ credential, params }) =>
      answer(await service.get(credential, params.webhookId)),
    ),
    route(operations.updateWebhook, async ({ credential, params, body, audit }) =>
      answer(await service.update(credential, params.webhookId, body, audit)),
    ),
    route(operations.deleteWebhook, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.webhookId, audit)),
    ),
    route(operations.rotateWebhookSecret, async ({ credential, params, audit, claimedRecord }) =>
      withSecret(await service.rotateSecret(credential, params.webhookId, audit, claimedRecord)),
    ),
    route(operations.testWebhook, async ({ credential, params, signal, audit }) => ({
      delivery: await service.test(credential, params.webhookId, signal, audit),
    })),
    route(operations.listWebhookDeliveries, ({ credential, params, query }) =>
      service.listDeliveries(credential, params.webhookId, {
        afterSeq: query.afterSeq ?? 0,
        limit: query.limit ?? PAGE_DELIVERIES,
      }),
    ),
    route(operations.resendWebhookDelivery, async ({ credential, params, audit }) => ({
      delivery: await service.resend(credential, params.webhookId, params.deliveryId, audit),
    })),
  ];
}
