import {
  CapturedVersion,
  CapturedVersionList,
  CapturedVersionRefList,
  CaptureInstance,
  DeriveVersion,
  RemoveVersionQuery,
  TemplateVersionList,
  VersionId,
} from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Captures } from '../capture/captures.ts';
import type { VersionRemoval } from '../capture/version-removal.ts';
import type { CapturedVersions } from '../storage/captured-versions.ts';
import type { LaunchableVersions } from '../storage/launchable-versions.ts';
import { closedEarly, InstanceParams, nameOf } from './instance-params.ts';

const VersionParams = Type.Object({ versionId: VersionId });

export interface VersionRoutesDeps {
  templates: LaunchableVersions;
  captured: CapturedVersions;
  captures: Captures;
  removal: VersionRemoval;
}

/** Adds the routes that list, make and remove template versions. */
export function addVersionRoutes(app: FastifyInstance, deps: VersionRoutesDeps): void {
  const { templates, captured, captures, removal } = deps;

  app.get('/template-versions', { schema: { response: { 200: TemplateVersionList } } }, async () => ({
    templateVersions: (await templates.listBuilt()).map(({ manifest }) => manifest),
  }));

  app.post<{ Params: InstanceParams; Body: CaptureInstance }>(
    '/instances/:sandboxId/:generation/capture',
    { schema: { params: InstanceParams, body: CaptureInstance, response: { 200: CapturedVersion } } },
    async (request, reply) => captures.capture(nameOf(request.params), request.body, closedEarly(reply)),
  );

  app.get('/captured-versions', { schema: { response: { 200: CapturedVersionList } } }, async () => ({
    versions: captured.list(),
  }));

  app.post<{ Body: DeriveVersion }>(
    '/captured-versions',
    { schema: { body: DeriveVersion, response: { 200: CapturedVersion } } },
    async ({ body }) => captures.derive(body),
  );

  app.get('/made-versions', { schema: { response: { 200: CapturedVersionRefList } } }, async () => ({
    versions: captured.listRefs(),
  }));

  app.delete<{ Params: Static<typeof VersionParams>; Querystring: RemoveVersionQuery }>(
    '/captured-versions/:versionId',
    { schema: { params: VersionParams, querystring: RemoveVersionQuery } },
    async ({ params, query }, reply) => {
      await removal.remove(params.versionId, Number(query.madeAt));
      return reply.code(204).send();
    },
  );
}
