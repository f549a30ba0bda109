import { LIMITS, operations, type TemplateBuildEvent } from '@cloche/contract';
import { notFound } from '../../../platform/base/app-error.ts';
import type { Call } from '../../../platform/call/call.ts';
import { newestFirst } from '../../../platform/db/list.ts';
import type { ListPart } from '../../../platform/db/list-part.ts';
import { lastSeen } from '../../../platform/http/last-seen.ts';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type Route, route, streamRoute } from '../../../platform/http/route.ts';
import { type CustomTemplateRecord, deleted } from '../../template-catalogue/custom/custom-template.ts';
import type { BuildLog } from '../builds/build-log.ts';
import { type BuildRecord, toBuild } from '../builds/template-build.ts';
import type { BuildService } from './build-service.ts';
import type { InspectImage } from './inspect-image.ts';
import { requireWholeOrganization, type TemplateService } from './template-service.ts';

const PAGE_ENTRIES = 100;

/** Names a build. */
interface BuildPath {
  readonly template: string;
  readonly buildId: string;
}

export interface BuildRoutesDeps {
  readonly templates: TemplateService;
  readonly builds: BuildService;
  readonly logs: BuildLog;
  readonly inspectImage: InspectImage;
}

export function buildRoutes({ templates, builds, logs, inspectImage }: BuildRoutesDeps): Route[] {
  const find = async (call: Call, params: BuildPath, waitMs = 0): Promise<BuildRecord> =>
    builds.get(call, await own(templates, call, params), params.buildId, waitMs);
  const follow = async function* (
    call: Call,
    params: BuildPath,
    { id }: BuildRecord,
    afterSeq: number,
  ): AsyncGenerator<TemplateBuildEvent, void> {
    for await (const entry of logs.follow(id, afterSeq, call.signal)) yield { type: 'log', data: entry };
    yield { type: 'complete', data: toBuild(await find(call, params)) };
  };
  return [
    route(operations.createTemplateBuild, async ({ call, params, body }) => {
      const planned = await builds.plan(call, body);
      const template = await templates.getOwn(call, params.template);
      if (template.deletedAt !== undefined) throw deleted(template);
      return { build: toBuild(await builds.create(call, template, planned)) };
    }),
    route(operations.inspectImage, async ({ call, body }) => {
      requireWholeOrganization(call.credential);
      return { image: await inspectImage.inspect(call, body) };
    }),
    listRoute(operations.listTemplateBuilds, async ({ call, params, query }) => {
      const found = await templates.find(call, params.template);
      // Without a page, the list has only the latest builds, as its description says.
      const limit = query.limit === undefined ? LIMITS.templateBuildsListed : Number.POSITIVE_INFINITY;
      const read = async (part: ListPart) => ('versions' in found ? [] : builds.list(found, part));
      return newestFirst((part) => read({ ...part, limit: Math.min(part.limit, limit) }), toBuild);
    }),
    route(operations.getTemplateBuild, async ({ call, params, query }) => ({
      build: toBuild(await find(call, params, query.waitMs ?? 0)),
    })),
    route(operations.listTemplateBuildLogs, async ({ call, params, query }) =>
      logs.page((await find(call, params)).id, query.afterSeq ?? 0, query.limit ?? PAGE_ENTRIES),
    ),
    streamRoute(operations.streamTemplateBuildLogs, async ({ call, params, query, lastEventId }) => {
      const afterSeq = lastSeen(lastEventId) ?? query.afterSeq ?? 0;
      return numbered(follow(call, params, await find(call, params), afterSeq));
    }),
    route(operations.cancelTemplateBuild, async ({ call, params }) => {
      const template = await templates.getOwn(call, params.template);
      return { build: toBuild(await builds.cancel(call, template, params.buildId)) };
    }),
  ];
}

/** Returns the template of a build that the key may see. A curated template has no builds. */
async function own(
  templates: TemplateService,
  call: Call,
  { template, buildId }: BuildPath,
): Promise<CustomTemplateRecord> {
  const found = await templates.find(call, template);
  if ('versions' in found) throw notFound('build', buildId);
  return found;
}

/** Numbers the entries, so that a client that reconnects can resume after the last one. */
async function* numbered(
  events: AsyncIterable<TemplateBuildEvent>,
): AsyncGenerator<TemplateBuildEvent & { id?: number }, void> {
  for await (const event of events) yield event.type === 'log' ? { ...event, id: event.data.seq } : event;
}
