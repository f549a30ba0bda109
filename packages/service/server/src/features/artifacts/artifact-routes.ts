import { type ArtifactId, LIMITS, operations } from '@cloche/contract';
import { type Clock, timestamp } from '../../platform/base/clock.ts';
import type { SignedLinks } from '../../platform/base/signed-links.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { downloadRoute, type Route, route } from '../../platform/http/route.ts';
import { type ArtifactRecord, toArtifact } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import type { ArtifactService } from './artifact-service.ts';
import { downloadArtifact } from './download-artifact.ts';
import type { ExportArtifact } from './export-artifact.ts';

export interface ArtifactRoutesDeps {
  readonly service: ArtifactService;
  readonly exportArtifact: ExportArtifact;
  readonly contents: ArtifactContents;
  readonly links: SignedLinks;
  /** Returns the base URL of download links, without a trailing slash. */
  readonly publicUrl: () => string;
  readonly clock: Clock;
}

export function artifactRoutes({
  service,
  exportArtifact,
  contents,
  links,
  publicUrl,
  clock,
}: ArtifactRoutesDeps): Route[] {
  const answer = (record: ArtifactRecord) => ({ artifact: toArtifact(record) });
  return [
    route(operations.exportArtifact, async ({ call, params, body }) =>
      answer(await exportArtifact.export(call, { ...params, body })),
    ),
    listRoute(operations.listArtifacts, ({ call, query }) => service.list(call, query)),
    route(operations.getArtifact, async ({ call, params }) => answer(await service.get(call, params.artifactId))),
    downloadRoute(operations.downloadArtifact, async ({ call, params, headers, headOnly }) => {
      const record = await service.get(call, params.artifactId);
      return downloadArtifact(call, record, contents, { headers, headOnly });
    }),
    route(operations.createArtifactDownloadUrl, async ({ call, params, body }) => {
      const { id, projectId, expiresAt } = await service.get(call, params.artifactId);
      await call.audit?.announce({ id, projectId });
      const asked = clock.now() + (body.expiresInMs ?? LIMITS.downloadUrlDefaultMs);
      const until = Math.min(asked, expiresAt ?? Number.POSITIVE_INFINITY);
      return { download: { url: publicUrl() + links.sign(id, until), expiresAt: timestamp(until) } };
    }),
    route(operations.deleteArtifact, async ({ call, params }) =>
      answer(await service.delete(call, params.artifactId as ArtifactId)),
    ),
  ];
}
