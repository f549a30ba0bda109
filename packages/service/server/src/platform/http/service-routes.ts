/** Routes for operators, tools and readers. They are not part of the contract and need no key. */

import { type HostWarning, openApiDocument, type Readiness } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import swagger, { type StaticDocumentSpec } from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { addDocsFiles } from './docs-files.ts';
import { HostMetrics } from './host-metrics.ts';
import type { InFlight } from './in-flight.ts';
import { SharedReading } from './shared-reading.ts';

const CHECK_MS = 2_000;
/** Content security policy of the pages, whose resources all come from this origin, over http or https. */
const DOCS_POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "object-src 'none'",
].join('; ');

/** Hides the bar, which has another project's logo and a field for the address of another API. */
const DOCS_STYLE = '.swagger-ui .topbar { display: none; }';

export interface ServiceRoutesDeps {
  readonly version: string;
  readonly metrics: Registry;
  /** Reads the metrics of the host's other services. */
  readonly readHostMetrics?: ((signal: AbortSignal) => Promise<string>) | undefined;
  readonly inFlight: InFlight;
  readonly isFenced?: (() => boolean) | undefined;
  /** Returns what keeps sandboxes from the network. Rejects while sandboxes cannot be served. */
  readonly check: (signal: AbortSignal) => Promise<readonly HostWarning[]>;
}

/** The document by the version of the service: described once in a process, also for several servers of it. */
const documents = new Map<string, OpenApi>();

interface OpenApi {
  // OpenAPI 3.1 JSON; its type in the contract is only a JSON object.
  readonly document: StaticDocumentSpec['document'];
  readonly text: string;
}

function openApiOf(version: string): OpenApi {
  const known = documents.get(version);
  if (known) return known;
  const document = openApiDocument(version);
  const made = { document: document as unknown as StaticDocumentSpec['document'], text: JSON.stringify(document) };
  documents.set(version, made);
  return made;
}

export async function registerServiceRoutes(app: FastifyInstance, deps: ServiceRoutesDeps): Promise<void> {
  const { document, text } = openApiOf(deps.version);

  app.get('/', (_request, reply) => reply.redirect('/docs'));
  app.get('/healthz', () => ({ status: 'ok', version: deps.version }));
  const ready = new SharedReading(async () => {
    using limit = new Deadline(CHECK_MS);
    return await deps.check(limit.signal);
  });
  app.get('/readyz', async (request, reply) => {
    if (deps.inFlight.isDraining) return reply.code(503).send({ status: 'stopping' });
    if (deps.isFenced?.()) return reply.code(503).send({ status: 'not ready' });
    try {
      return { status: 'ready', warnings: [...(await ready.get())] } satisfies Readiness;
    } catch (error) {
      request.log.debug({ err: error }, 'not ready');
      return reply.code(503).send({ status: 'not ready' });
    }
  });
  const { metrics, readHostMetrics } = deps;
  const host = readHostMetrics && new HostMetrics(readHostMetrics);
  // Bytes, which the answers share until the clients have read them.
  const page = new SharedReading(async () => {
    const [own, others] = await Promise.all([metrics.metrics(), host?.read() ?? '']);
    return Buffer.from(`${own}\n${others}`);
  });
  app.get('/metrics', async (_request, reply) => reply.type(metrics.contentType).send(await page.get()));
  app.get('/openapi.json', (_request, reply) => reply.type('application/json; charset=utf-8').send(text));

  await addDocsFiles(app, DOCS_POLICY);
  await app.register(swagger, { mode: 'static', specification: { document } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: DOCS_POLICY,
    theme: { title: 'Cloche API', css: [{ filename: 'cloche.css', content: DOCS_STYLE }] },
    uiConfig: { docExpansion: 'list', defaultModelsExpandDepth: 0, tryItOutEnabled: true, validatorUrl: null },
  });
}
