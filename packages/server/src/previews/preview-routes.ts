import { operations } from '@cloche/contract';
import { type Route, route } from '../http/route.ts';
import { type PreviewRecord, toPreview } from './preview.ts';
import type { PreviewHosts } from './preview-hosts.ts';
import type { PreviewService } from './preview-service.ts';

export function previewRoutes(service: PreviewService, hosts: PreviewHosts): Route[] {
  const show = (record: PreviewRecord, token?: string) => toPreview(record, hosts.urlOf(record.id), token);
  const answer = (record: PreviewRecord) => ({ preview: show(record) });
  const answerAll = (records: readonly PreviewRecord[]) => ({ data: records.map((one) => show(one)), hasMore: false });
  return [
    route(operations.openPreview, async (request) => {
      const { preview, token } = await service.open(request);
      return { preview: show(preview, token) };
    }),
    route(operations.listSandboxPreviews, async ({ credential, params }) =>
      answerAll(await service.listOf(credential, params.sandboxId)),
    ),
    route(operations.listPreviews, async ({ credential, query }) => answerAll(await service.list(credential, query))),
    route(operations.getPreview, async ({ credential, params }) =>
      answer(await service.get(credential, params.previewId)),
    ),
    route(operations.deletePreview, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.previewId, audit)),
    ),
  ];
}
