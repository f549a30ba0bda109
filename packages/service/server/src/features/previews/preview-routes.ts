import { operations } from '@cloche/contract';
import { newestFirst } from '../../platform/db/list.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { type PreviewRecord, toPreview } from './preview.ts';
import type { PreviewHosts } from './preview-hosts.ts';
import type { PreviewService, ReadPreviews } from './preview-service.ts';

export function previewRoutes(service: PreviewService, hosts: PreviewHosts): Route[] {
  const show = (record: PreviewRecord, token?: string) => toPreview(record, hosts.urlOf(record.id), token);
  const answer = (record: PreviewRecord) => ({ preview: show(record) });
  const list = (read: ReadPreviews) => newestFirst(read, (record) => show(record));
  return [
    route(operations.openPreview, async ({ call, params, body }) => {
      const { preview, token } = await service.open(call, params.sandboxId, body);
      return { preview: show(preview, token) };
    }),
    listRoute(operations.listSandboxPreviews, async ({ call, params }) =>
      list(await service.listOf(call, params.sandboxId)),
    ),
    listRoute(operations.listPreviews, async ({ call, query }) => list(await service.list(call, query))),
    route(operations.getPreview, async ({ call, params }) => answer(await service.get(call, params.previewId))),
    route(operations.deletePreview, async ({ call, params }) => answer(await service.delete(call, params.previewId))),
  ];
}
