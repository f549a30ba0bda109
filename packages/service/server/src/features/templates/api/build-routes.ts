import { LIMITS, operations, type TemplateBuildEvent } from '@cloche/contract';
import { notFound } from '../../../platform/base/app-error.ts';
import { newestFirst } from '../../../platform/db/list.ts';
import type { ListPart } from '../../../platform/db/list-part.ts';
import { lastSeen } from '../../../platform/http/last-seen.ts';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type Route, route, streamRoute } from '../../../platform/http/route.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import { type CustomTemplateRecord, deleted } from '../../template-catalogue/custom/custom-template.ts';
import type { BuildLog } from '../builds/build-log.ts';
import { type BuildRecord, toBuild } from '../builds/template-build.ts';
import type { BuildService } from './build-service.ts';
import type { InspectImage } from './inspect-image.ts';
import { requireWholeOrganization, type TemplateService } from './template-service.ts';

const PAGE_ENTRIES = 100;

interface BuildRequest {
  readonly credential: Credential;
  readonly params: { readonly template: string; readonly buildId: string };
  readonly signal: AbortSignal;
}

export interface BuildRoutesDeps {
  readonly templates: TemplateService;
  readonly builds: BuildService;
  readonly logs: BuildLog;
  readonly inspectImage: InspectImage;
}

export function buildRoutes({ templates, builds, logs, inspectImage }: BuildRoutesDeps): Route[] {
  const find = async ({ credential, params, signal }: BuildRequest, waitMs = 0): Promise<BuildRecord> =>
    builds.get(await own(templates, credential, params), params.buildId, waitMs, signal);
  const follow = async function* (
    build: BuildRecord,
    afterSeq: number,
    request: BuildRequest,
  ): AsyncGenerator<TemplateBuildEvent, void> {
    for await (const entry of logs.follow(build.id, afterSeq, request.signal)) yield { type: 'log', data: entry };
    yield { type: 'complete', data: toBuild(await find(request)) };
  };
  return [
    route(operations.createTemplateBuild, async ({ credential, params, body, idempotencyRecordId, audit }) => {
      const planned = await builds.plan(credential, body);
      const template = await templates.getOwn(credential, params.template);
      if (template.deletedAt !== undefined) throw deleted(template);
      return { build: toBuild(await builds.create(template, planned, idempotencyRecordId, audit)) };
    }),
    route(operations.inspectImage, async ({ credential, body, signal }) => {
      requireWholeOrganization(credential);
      return { image: await inspectImage.inspect(credential, body, signal) };
    }),
    listRoute(operations.listTemplateBuilds, async ({ credential, params, query }) => {
      const found = await templates.find(credential, params.template);
      // Without a page, the list has only the latest builds, as its description says.
      const limit = query.limit === undefined ? LIMITS.templateBuildsListed : Number.POSITIVE_INFINITY;
      const read = async (part: ListPart) => ('versions' in found ? [] : builds.list(found, part));
      return newestFirst((part) => read({ ...part, limit: Math.min(part.limit, limit) }), toBuild);
    }),
    route(operations.getTemplateBuild, async (request) => ({
      build: toBuild(await find(request, request.query.waitMs ?? 0)),
    })),
    route(operations.listTemplateBuildLogs, async (request) =>
      logs.page((await find(request)).id, request.query.afterSeq ?? 0, request.query.limit ?? PAGE_ENTRIES),
    ),
    streamRoute(operations.streamTemplateBuildLogs, async (request) => {
      const afterSeq = lastSeen(request.lastEventId) ?? request.query.afterSeq ?? 0;
      return numbered(follow(await find(request), afterSeq, request));
    }),
    route(operations.cancelTemplateBuild, async ({ credential, params, audit }) => {
      const template = await templates.getOwn(credential, params.template);
      return { build: toBuild(await builds.cancel(template, params.buildId, audit)) };
    }),
  ];
}

/** Returns the template of a build that the key may see. A curated template has no builds. */
async function own(
  templates: TemplateService,
  credential: Credential,
  { template, buildId }: BuildRequest['params'],
): Promise<CustomTemplateRecord> {
  const found = await templates.find(credential, template);
  if ('versions' in found) throw notFound('build', buildId);
  return found;
}

/** Numbers the entries, so that a client that reconnects can resume after the last one. */
async function* numbered(
  events: AsyncIterable<TemplateBuildEvent>,
): AsyncGenerator<TemplateBuildEvent & { id?: number }, void> {
  for await (const event of events) yield event.type === 'log' ? { ...event, id: event.data.seq } : event;
}
