import {
  HistoryQuery,
  HostdErrorBody,
  Instance,
  InstanceHistory,
  InstanceList,
  InstanceUseList,
  LaunchedInstance,
  LaunchHeaders,
  LaunchQuery,
  LaunchSpec,
  MeasuredInstanceList,
  MeasureInstances,
  OWNER_HEADER,
  ProvideKernel,
  StoppedInstance,
  StopQuery,
} from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import { versionOfSource } from '../instance/instance-source.ts';
import type { Freezing } from '../instances/freezing.ts';
import type { Instances } from '../instances/instances.ts';
import type { MeasuredInstances } from '../instances/measured-instances.ts';
import { kindOf } from '../pool/pool-kind.ts';
import type { WarmPool } from '../pool/warm-pool.ts';
import type { LaunchableVersions } from '../storage/launchable-versions.ts';
import { closedEarly, InstanceParams, nameOf } from './instance-params.ts';

export interface InstanceRoutesDeps {
  instances: Instances;
  freezing: Freezing;
  noteBusyClaim: () => void;
  pool: Pick<WarmPool, 'expect'>;
  templates: LaunchableVersions;
}

/** Longest wait for an instance that is launched because a launch is expected. */
const EXPECTED_MS = 10_000;
/** Longest wait for an instance that loads warm imports. It exceeds the pool's own limit. */
const WARM_MS = 80_000;

/** Adds the routes that launch, find and stop instances. */
export function addInstanceRoutes(
  app: FastifyInstance,
  { instances, freezing, noteBusyClaim, pool, templates }: InstanceRoutesDeps,
): void {
  app.get('/instances', { schema: { response: { 200: InstanceList } } }, async () => ({
    instances: instances.list(),
  }));

  app.get<{ Params: InstanceParams }>(
    '/instances/:sandboxId/:generation',
    { schema: { params: InstanceParams, response: { 200: Instance } } },
    async ({ params }) => instances.get(nameOf(params)),
  );

  app.put<{ Params: InstanceParams; Querystring: LaunchQuery; Headers: LaunchHeaders; Body: LaunchSpec }>(
    '/instances/:sandboxId/:generation',
    {
      schema: {
        params: InstanceParams,
        querystring: LaunchQuery,
        headers: LaunchHeaders,
        body: LaunchSpec,
        response: { 200: LaunchedInstance, default: HostdErrorBody },
      },
    },
    async (request, reply) => {
      if (request.query.starts === 'busy') noteBusyClaim();
      const options = { owner: request.headers[OWNER_HEADER], onStep: request.trace?.onStep };
      return instances.launch(nameOf(request.params), request.body, closedEarly(reply), options);
    },
  );

  app.post<{ Headers: LaunchHeaders; Body: LaunchSpec }>(
    '/expected-launches',
    { schema: { headers: LaunchHeaders, body: LaunchSpec } },
    async (request, reply) => {
      // An instance that was launched ahead has a fresh disk.
      if (request.body.source.kind === 'parked') return reply.code(204).send();
      const template = await templates.get(versionOfSource(request.body.source));
      const kind = kindOf(request.body, template, request.headers[OWNER_HEADER]);
      const hasImports = template.manifest.warm !== undefined;
      const timeout = AbortSignal.timeout(hasImports ? WARM_MS : EXPECTED_MS);
      await pool.expect(kind, hasImports, AbortSignal.any([closedEarly(reply), timeout]));
      return reply.code(204).send();
    },
  );

  app.post<{ Params: InstanceParams; Body: ProvideKernel }>(
    '/instances/:sandboxId/:generation/kernels',
    { schema: { params: InstanceParams, body: ProvideKernel } },
    async (request, reply) => {
      await instances.provideKernel(nameOf(request.params));
      return reply.code(204).send();
    },
  );

  for (const action of ['freeze', 'thaw'] as const) {
    app.post<{ Params: InstanceParams }>(
      `/instances/:sandboxId/:generation/${action}`,
      { schema: { params: InstanceParams } },
      async ({ params }) => {
        await freezing[action](nameOf(params));
        return {};
      },
    );
  }

  app.delete<{ Params: InstanceParams; Querystring: StopQuery }>(
    '/instances/:sandboxId/:generation',
    { schema: { params: InstanceParams, querystring: StopQuery, response: { 200: StoppedInstance } } },
    async (request) => {
      const { gone, use } = await instances.stop(nameOf(request.params));
      if (request.query.until === 'gone') await gone;
      return use ? { use } : {};
    },
  );
}

/** Adds the routes that tell what instances use. */
export function addMeasurementRoutes(app: FastifyInstance, measured: MeasuredInstances): void {
  app.get('/uses', { schema: { response: { 200: InstanceUseList } } }, async () => ({ uses: await measured.uses() }));

  app.post<{ Body: MeasureInstances }>(
    '/uses',
    { schema: { body: MeasureInstances, response: { 200: InstanceUseList } } },
    async ({ body }) => ({ uses: await measured.usesOf(body.instances) }),
  );

  app.post<{ Body: MeasureInstances }>(
    '/measurements',
    { schema: { body: MeasureInstances, response: { 200: MeasuredInstanceList } } },
    async ({ body }) => ({ measured: await measured.measure(body.instances) }),
  );

  app.get<{ Params: InstanceParams; Querystring: HistoryQuery }>(
    '/instances/:sandboxId/:generation/measurements',
    { schema: { params: InstanceParams, querystring: HistoryQuery, response: { 200: InstanceHistory } } },
    async ({ params, query }) => measured.history(nameOf(params), Number(query.fromMs ?? 0)),
  );
}
