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
    route(operations.openPreview, async (request) => {
      const { preview, token } = await service.open(request);
      return { preview: show(preview, token) };
    }),
    listRoute(operations.listSandboxPreviews, async ({ credential, params }) =>
      list(await service.listOf(credential, params.sandboxId)),
    ),
    listRoute(operations.listPreviews, async ({ credential, query }) => list(await service.list(credential, query))),
    route(operations.getPreview, async ({ credential, params }) =>
      answer(await service.get(credential, params.previewId)),
    ),
    route(operations.deletePreview, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.previewId, audit)),
    ),
  ];
}
