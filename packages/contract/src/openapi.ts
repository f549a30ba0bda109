/** The OpenAPI 3.1 document, made from the table of operations. TypeBox schemas are JSON Schema already. */
import type { TSchema } from 'typebox';
import { ERRORS, ErrorBody } from './errors.ts';
import { IDEMPOTENCY_HEADER } from './idempotency.ts';
import { LIMITS } from './limits.ts';
import { errorsOf, type Operation } from './operation.ts';
import { operations } from './operations/index.ts';

type Json = Record<string, unknown>;

/** The document that `/openapi.json` serves. */
export function openApiDocument(version: string): Json {
  const components = new Map<string, unknown>();
  const paths: Record<string, Json> = {};
  for (const operation of currentFirst(Object.values(operations))) {
    const entry = { [operation.method.toLowerCase()]: describeOperation(operation, components) };
    paths[operation.path] = { ...paths[operation.path], ...entry };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Cloche',
      version,
      description: 'Isolated, live sandboxes that run code nobody trusts.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }],
    tags: [...new Set(Object.values(operations).map((operation) => operation.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(components),
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'clk_…' } },
    },
  };
}

/** Readers meet what they should use before its deprecated aliases. */
function currentFirst(all: readonly Operation[]): Operation[] {
  return all.toSorted((one, other) => Number(Boolean(one.deprecation)) - Number(Boolean(other.deprecation)));
}

function describeOperation(operation: Operation, components: Map<string, unknown>): Json {
  const { response } = operation;
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    description: describeRules(operation),
    ...(operation.deprecation ? { deprecated: true } : {}),
    'x-scope': operation.scope,
    parameters: describeParameters(operation, components),
    ...describeRequestBody(operation, components),
    responses: {
      [response.status]: { description: response.description, content: describeContent(operation, components) },
      ...furtherResponses(operation),
      ...errorResponses(operation, components),
    },
  };
}

function describeRequestBody({ body, bodyOptional, upload }: Operation, components: Map<string, unknown>): Json {
  if (upload) {
    return { requestBody: { required: true, description: upload.description, content: bytes(upload.contentTypes) } };
  }
  if (!body) return {};
  const content = { 'application/json': { schema: refer(body, components) } };
  return { requestBody: { required: !bodyOptional, content } };
}

function describeContent({ response, events, download, webSocket }: Operation, components: Map<string, unknown>): Json {
  if (events) return { 'text/event-stream': { schema: refer(events, components) } };
  if (download) return bytes(download.contentTypes);
  if (webSocket) return {};
  return { 'application/json': { schema: refer(response.schema, components) } };
}

/** As OpenAPI 3.1 describes bytes: a media type, and no schema. */
function bytes(contentTypes: readonly string[]): Json {
  return Object.fromEntries(contentTypes.map((type) => [type, {}]));
}

function furtherResponses({ download }: Operation): Json {
  const also = Object.entries(download?.also ?? {});
  return Object.fromEntries(also.map(([status, description]) => [status, { description }]));
}

function describeRules(operation: Operation): string {
  const lines = [operation.description ?? '', `Scope: \`${operation.scope}\`.`];
  if (operation.extraScope) lines.push(`Also \`${operation.extraScope.scope}\` when ${operation.extraScope.when}.`);
  if (operation.webSocket) lines.push(operation.webSocket);
  if (operation.deprecation) {
    lines.push(
      `Deprecated alias of \`${operation.deprecation.successorId}\`; stays until ${operation.deprecation.sunset.toISOString().slice(0, 10)}.`,
    );
  }
  return lines.filter(Boolean).join('\n\n');
}

function describeParameters(operation: Operation, components: Map<string, unknown>): Json[] {
  const parameters: Json[] = [];
  for (const [name, schema] of Object.entries(operation.params?.properties ?? {})) {
    parameters.push({ name, in: 'path', required: true, schema: refer(schema, components) });
  }
  for (const [name, schema] of Object.entries(operation.query?.properties ?? {})) {
    const required = operation.query?.required?.includes(name) ?? false;
    parameters.push({ name, in: 'query', required, schema: refer(schema, components) });
  }
  for (const [name, description] of Object.entries(operation.headers ?? {})) {
    parameters.push({ name, in: 'header', required: false, description, schema: { type: 'string' } });
  }
  if (operation.idempotency !== 'none') {
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: operation.idempotency === 'required',
      description: `Any string unique to the operation (\`${IDEMPOTENCY_HEADER}\`); kept for 24 hours.`,
      schema: { type: 'string', minLength: 1, maxLength: LIMITS.idempotencyKeyLength },
    });
  }
  return parameters;
}

/** One response a status; codes that share it are listed in its description. */
function errorResponses(operation: Operation, components: Map<string, unknown>): Json {
  const byStatus = new Map<number, string[]>();
  for (const code of errorsOf(operation)) {
    const { status, means } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), `\`${code}\`: ${means}`]);
  }
  const schema = refer(ErrorBody, components);
  return Object.fromEntries(
    [...byStatus].map(([status, lines]) => [
      String(status),
      { description: lines.join('\n\n'), content: { 'application/json': { schema } } },
    ]),
  );
}

/** A schema with `$id` becomes a component; whatever it holds is referred to in the same way. */
function refer(schema: TSchema, components: Map<string, unknown>): unknown {
  const { $id, ...rest } = schema as TSchema & { $id?: string };
  const inner = referInside(rest, components);
  if ($id === undefined) return inner;
  if (!components.has($id)) components.set($id, inner);
  return { $ref: `#/components/schemas/${$id}` };
}

function referInside(value: unknown, components: Map<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => referInside(item, components));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, child]) => {
      const isSchema = typeof child === 'object' && child !== null && '$id' in child;
      return [key, isSchema ? refer(child as TSchema, components) : referInside(child, components)];
    }),
  );
}
