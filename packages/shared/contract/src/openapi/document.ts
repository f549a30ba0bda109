/** Generates the OpenAPI 3.1 document from the table of operations. */
import { IDEMPOTENCY_HEADER } from '../idempotency.ts';
import { LIMITS } from '../limits.ts';
import type { Operation } from '../operation.ts';
import { operations } from '../operations/index.ts';
import { Readiness } from '../readiness.ts';
import { TAGS } from '../tags.ts';
import { type Components, type Json, refer } from './components.ts';
import { HEADERS, IDEMPOTENCY_KEY, REQUEST_ID_PARAMETER, requestHeaderSchema } from './headers.ts';
import { bytes, describeResponses, errorCatalogue } from './responses.ts';

const DESCRIPTION = `\
Cloche runs untrusted code in isolated sandboxes.

**Authentication.** Send an API key: \`Authorization: Bearer clk_…\`. Each operation names the scope that the key needs.

**Errors.** Every error response has the body \`Error\`. Match \`code\`, never \`message\`. For each code, \`x-errors\`
says whether to repeat the request (\`after\`: after \`Retry-After\` seconds) and what \`details\` has. Ids are opaque: an unknown
id, or the id of another organization's resource, is \`not_found\`.

**Idempotency.** With an \`${IDEMPOTENCY_HEADER}\` header a request can be repeated safely: it is executed once, and repetitions
within 24 hours get the same response with \`Idempotency-Replayed: true\`. The body of a repetition must be the same JSON.

**Requests.** Bodies are JSON in UTF-8 without compression, at most ${LIMITS.bodyBytes} bytes; URL and headers together have
at most ${LIMITS.headerBytes} bytes. Unknown fields and query parameters are refused. Strings must be valid Unicode without unpaired
surrogates, and only \`code\`, \`stdin\` and \`data\` may contain NUL. Every \`GET\` operation also supports \`HEAD\`.

**Lists.** Without \`limit\`, a list is complete. With it, \`nextCursor\` of a page is the \`cursor\` of the next; entries that are
added meanwhile move nothing. A cursor belongs to its list with its filters; another, or one of an older version, is \`invalid_request\`.

**Readiness.** \`GET /readyz\` needs no key. While code can run it answers 200 with \`Readiness\`, whose \`warnings\` say which
sandboxes have no network; else 503.

**Streams.** Responses of type \`text/event-stream\` are server-sent events. The schema of a stream describes its frames.`;

/** Returns the document that `/openapi.json` serves. */
export function openApiDocument(version: string): Json {
  const components: Components = new Map();
  const paths: Record<string, Json> = {};
  for (const operation of currentFirst(Object.values(operations))) {
    const entry = { [operation.method.toLowerCase()]: describeOperation(operation, components) };
    paths[operation.path] = { ...paths[operation.path], ...entry };
  }
  refer(Readiness, components);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Cloche',
      version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This service.' }],
    security: [{ apiKey: [] }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    'x-errors': errorCatalogue(components),
    components: {
      schemas: Object.fromEntries(components),
      headers: HEADERS,
      parameters: { RequestId: REQUEST_ID_PARAMETER },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'clk_…', description: 'An API key of the service.' },
      },
    },
  };
}

/** Puts the deprecated aliases last. */
function currentFirst(all: readonly Operation[]): Operation[] {
  return all.toSorted((one, other) => Number(Boolean(one.deprecation)) - Number(Boolean(other.deprecation)));
}

function describeOperation(operation: Operation, components: Components): Json {
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    description: describeRules(operation),
    ...(operation.deprecation ? { deprecated: true } : {}),
    'x-scope': operation.scope,
    parameters: describeParameters(operation, components),
    ...describeRequestBody(operation, components),
    responses: describeResponses(operation, components),
  };
}

function describeRequestBody({ body, bodyOptional, upload }: Operation, components: Components): Json {
  if (upload) {
    return {
      requestBody: {
        required: !upload.mayBeEmpty,
        description: upload.description,
        content: bytes(upload.contentTypes),
      },
    };
  }
  if (!body) return {};
  const content = { 'application/json': { schema: refer(body, components) } };
  return { requestBody: { required: !bodyOptional, content } };
}

function describeRules(operation: Operation): string {
  const lines = [
    operation.description ?? '',
    operation.scope === null ? 'Needs no scope.' : `Scope: \`${operation.scope}\`.`,
  ];
  if (operation.extraScope) lines.push(`Also \`${operation.extraScope.scope}\` if ${operation.extraScope.when}.`);
  if (operation.webSocket) lines.push(operation.webSocket);
  if (operation.deprecation) {
    const { successorId, sunset } = operation.deprecation;
    lines.push(
      `Deprecated: use \`${successorId}\`. This alias may be removed after ${sunset.toISOString().slice(0, 10)}.`,
    );
  }
  return lines.filter(Boolean).join('\n\n');
}

function describeParameters(operation: Operation, components: Components): Json[] {
  const parameters: Json[] = [];
  for (const [name, schema] of Object.entries(operation.params?.properties ?? {})) {
    parameters.push({ name, in: 'path', required: true, ...described(refer(schema, components)) });
  }
  for (const [name, schema] of Object.entries(operation.query?.properties ?? {})) {
    const required = operation.query?.required?.includes(name) ?? false;
    parameters.push({ name, in: 'query', required, ...described(refer(schema, components)) });
  }
  if (operation.query && 'patternProperties' in operation.query) parameters.push(labelParameter);
  for (const [name, description] of Object.entries(operation.headers ?? {})) {
    parameters.push({ name, in: 'header', required: false, description, schema: requestHeaderSchema(name) });
  }
  if (operation.idempotency !== 'none') {
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: operation.idempotency === 'required',
      description: 'A string that is unique to this operation, such as a UUID. The response is kept for 24 hours.',
      schema: IDEMPOTENCY_KEY,
    });
  }
  return [...parameters, { $ref: '#/components/parameters/RequestId' }];
}

/** Moves the description from a parameter's schema to the parameter. */
function described(schema: unknown): Json {
  const { description, ...rest } = schema as Json;
  return { ...(description === undefined ? {} : { description }), schema: rest };
}

/** OpenAPI cannot describe parameter names by a pattern. An object whose properties are parameters comes closest. */
const labelParameter: Json = {
  name: 'labels',
  in: 'query',
  required: false,
  style: 'form',
  explode: true,
  description: 'Filters by labels: `metadata.<key>=<value>`, for example `metadata.team=billing`.',
  schema: {
    type: 'object',
    propertyNames: { pattern: '^metadata\\.' },
    additionalProperties: { type: 'string' },
    examples: [{ 'metadata.team': 'billing' }],
  },
};
