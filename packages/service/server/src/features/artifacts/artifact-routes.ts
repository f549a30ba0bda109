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
    route(operations.exportArtifact, async (request) => answer(await exportArtifact.export(request))),
    listRoute(operations.listArtifacts, ({ credential, query }) => service.list(credential, query)),
    route(operations.getArtifact, async ({ credential, params }) =>
      answer(await service.get(credential, params.artifactId)),
    ),
    downloadRoute(operations.downloadArtifact, async (request) => {
      const record = await service.get(request.credential, request.params.artifactId);
      return downloadArtifact(record, contents, request);
    }),
    route(operations.createArtifactDownloadUrl, async ({ credential, params, body, audit }) => {
      const { id, projectId, expiresAt } = await service.get(credential, params.artifactId);
      await audit?.announce({ id, projectId });
      const asked = clock.now() + (body.expiresInMs ?? LIMITS.downloadUrlDefaultMs);
      const until = Math.min(asked, expiresAt ?? Number.POSITIVE_INFINITY);
      return { download: { url: publicUrl() + links.sign(id, until), expiresAt: timestamp(until) } };
    }),
    route(operations.deleteArtifact, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.artifactId as ArtifactId, audit)),
    ),
  ];
}
