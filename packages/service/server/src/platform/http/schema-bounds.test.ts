/** Tests that the service enforces each constraint on requests in the OpenAPI document. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import {
  ARTIFACT_PATTERN,
  BASE64_PATTERN,
  EVENT_TYPES_PATTERN,
  FILE_PATH_PATTERN,
  HOST_ENTRY_PATTERN,
  type Operation,
  openApiDocument,
  operations,
  WEBHOOK_URL_PATTERN,
} from '@cloche/contract';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { openPreviewWorld, type PreviewWorld } from '../../../testing/previews.ts';
import { boundsOf, exampleOf, mutantsOf, type Schema } from '../../../testing/schema-mutants.ts';
import { PATTERNS } from './describe-issues.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Schema;
}

const document = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));
const all = Object.values(operations) as Operation[];

/** Resolves a reference of the document. */
function resolve(schema: Schema): Schema {
  const { $ref } = schema as { $ref?: string };
  if ($ref === undefined) return schema;
  return $ref
    .slice(2)
    .split('/')
    .reduce((value, name) => value[name], document);
}

let world: PreviewWorld;
let commandId: string;
before(async () => {
  world = await openPreviewWorld();
  const made = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/commands`, { command: 'x' }, randomUUID());
  commandId = made.body.command?.id ?? 'cmd_none';
});
after(() => world.close());

const described = ({ path, method }: Operation) => document.paths[path][method.toLowerCase()];
const bodyOf = (operation: Operation): Schema | undefined =>
  described(operation).requestBody?.content?.['application/json']?.schema;

function pathOf({ path }: Operation): string {
  const ids: Record<string, string> = { sandboxId: world.sandboxId, commandId, template: 'python-node' };
  return path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? `${name}_none`);
}

async function send(operation: Operation, request: { query?: string; body?: unknown; key?: string }) {
  const { query = requiredQuery(operation), body, key = randomUUID() } = request;
  const headers: Record<string, string> = {
    authorization: `Bearer ${world.key}`,
    ...(key === '' ? {} : { 'idempotency-key': key }),
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const response = await fetch(`${world.server.url}${pathOf(operation)}?${query}`, {
    method: operation.method,
    headers,
    signal: AbortSignal.timeout(20_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  if (isStream) await response.body?.cancel();
  // biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
  const answer: any = isStream ? {} : await response.json();
  return { status: response.status, code: answer.error?.code, issues: answer.error?.details?.issues ?? [] };
}

function requiredQuery(operation: Operation): string {
  return (operation.query?.required ?? []).map((name) => `${name}=x`).join('&');
}

describe('a request that breaks one constraint of the document is refused:', () => {
  for (const operation of all) {
    const body = bodyOf(operation);
    if (!body) continue;
    it(`the body of ${operation.id}`, async () => {
      const mutants = mutantsOf(body, exampleOf(resolve(body)), resolve);
      assert.ok(mutants.length > 3);
      for (const { what, value } of mutants) {
        const { status, code } = await send(operation, { body: value });
        assert.ok(['invalid_request', 'sandbox_ttl_exceeded'].includes(code), `${what}: ${status} ${code}`);
      }
    });
  }

  for (const operation of all) {
    const parameters: Parameter[] = described(operation).parameters.map(resolve);
    const inQuery = parameters.filter((parameter) => parameter.in === 'query');
    if (inQuery.length === 0) continue;
    it(`the query of ${operation.id}`, async () => {
      const texts = inQuery.flatMap(({ name, schema }) =>
        mutantsOf(schema, undefined, resolve).flatMap(({ what, value }) =>
          // In a query every value is text, so a string parameter also accepts a number's text.
          schema.type === 'object' || (schema.type === 'string' && typeof value !== 'string')
            ? []
            : [{ what: `${name}: ${what}`, query: `${name}=${encodeURIComponent(String(value))}` }],
        ),
      );
      const others = inQuery.filter(({ required }) => required).map(({ name }) => `${name}=x`);
      for (const { what, query } of [...texts, { what: 'unknown', query: 'unknown=1' }]) {
        const kept = others.filter((other) => !query.startsWith(other.slice(0, -1)));
        if (what.endsWith('a text') && query.endsWith('=true')) continue;
        const { status, code } = await send(operation, { query: [...kept, query].join('&') });
        assert.equal(code, 'invalid_request', `${what}: ${status}`);
      }
      for (const { name, required } of inQuery) {
        if (required) assert.equal((await send(operation, { query: '' })).code, 'invalid_request', `without ${name}`);
      }
    });
  }

  it('the Idempotency-Key', async () => {
    for (const operation of all.filter(({ idempotency, events }) => idempotency === 'required' && !events)) {
      const body = exampleOf(resolve(bodyOf(operation) ?? {}));
      for (const key of ['', 'x'.repeat(256), 'caf\u00e9']) {
        assert.equal((await send(operation, { body, key })).code, 'invalid_request', `${operation.id} ${key}`);
      }
    }
  });
});

describe('a request at the bounds that the document states is not refused for them:', () => {
  for (const operation of all) {
    const body = bodyOf(operation);
    if (!body || operation.events) continue;
    it(`the body of ${operation.id}`, async () => {
      const good = exampleOf(resolve(body)) as object;
      for (const { what, value } of [{ what: 'the example', value: good }, ...boundsOf(body, good, resolve)]) {
        const { issues } = await send(operation, { body: value });
        const names = issues.map(({ path, message }: { path: string; message: string }) => `${path} ${message}`);
        assert.ok(
          !names.some((text: string) => / (must have at (most|least)|must be at (most|least)|must match) /.test(text)),
          `${what}: ${names}`,
        );
      }
    });
  }
});

it('every pattern of a request has a message in words', () => {
  const patterns = JSON.stringify(all.map(({ body, query }) => [body, query])).matchAll(
    /"pattern":("(?:[^"\\]|\\.)*")/g,
  );
  const found = new Set([...patterns].map(([, text = '']) => JSON.parse(text)));
  const checkedInCode = [
    HOST_ENTRY_PATTERN,
    FILE_PATH_PATTERN,
    BASE64_PATTERN,
    ARTIFACT_PATTERN,
    EVENT_TYPES_PATTERN,
    WEBHOOK_URL_PATTERN,
  ];
  for (const pattern of checkedInCode) found.delete(pattern);
  for (const pattern of found) assert.ok(pattern in PATTERNS, pattern);
});

describe('an example in the document', () => {
  it('an example in the document is there for every JSON body', () => {
    for (const operation of all) {
      const body = bodyOf(operation);
      if (body) assert.ok((resolve(body).examples as unknown[] | undefined)?.length, operation.id);
    }
  });

  it('an example in the document fits its schema', () => {
    const checked: unknown[] = [];
    const walk = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      const { examples, ...schema } = value as { examples?: unknown };
      if (Array.isArray(examples) && 'type' in schema) {
        const validator = Compile(inlined(schema) as TSchema);
        for (const example of examples) {
          assert.ok(validator.Check(example), `${JSON.stringify(example)} of ${JSON.stringify(schema).slice(0, 200)}`);
          checked.push(example);
        }
      }
      for (const child of Object.values(schema)) walk(child);
    };
    walk(document);
    assert.ok(checked.length >= 20, String(checked.length));
  });
});

/** Returns the schema with its references replaced by their targets. */
function inlined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inlined);
  if (typeof value !== 'object' || value === null) return value;
  const schema = resolve(value as Schema);
  return Object.fromEntries(Object.entries(schema).map(([key, child]) => [key, inlined(child)]));
}
