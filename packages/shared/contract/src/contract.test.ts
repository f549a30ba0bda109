import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_CODES } from './errors.ts';
import { isIdempotencyKey } from './idempotency.ts';
import { mapBytes } from './limits.ts';
import { openApiDocument } from './openapi/document.ts';
import type { Operation } from './operation.ts';
import { AUDIT_ACTIONS } from './operations/audit-actions.ts';
import { errorsOf } from './operations/errors-of.ts';
import { type OperationId, operations } from './operations/index.ts';
import { WHILE_PAUSED, type WhilePaused } from './operations/while-paused.ts';
import { SCOPES } from './scopes.ts';

const table = Object.entries(operations) as [string, Operation][];

describe('the table of operations', () => {
  it('the table of operations names each operation by its key', () => {
    for (const [key, operation] of table) assert.equal(operation.id, key);
  });

  it('the table of operations serves no method and path twice', () => {
    const routes = table.map(([, { method, path }]) => `${method} ${path}`);
    assert.equal(new Set(routes).size, routes.length);
  });

  it('the table of operations has an audit event for each operation that changes something outside of a sandbox', () => {
    const insideOfSandbox = new Set(['code:run', 'file:read', 'file:write']);
    const ofRunningCommand = new Set(['writeCommandStdin', 'resizeCommand']);
    // It only reads, but has a body.
    const reading = new Set(['inspectImage']);
    for (const [id, { method, scope }] of table) {
      if (method === 'GET' || ofRunningCommand.has(id) || reading.has(id)) continue;
      const hasNone = AUDIT_ACTIONS[id as OperationId] === 'none';
      assert.equal(hasNone, insideOfSandbox.has(scope ?? '') && !id.endsWith('Context'), id);
    }
  });

  it('names in each audit event a resource of the path or of the response', () => {
    for (const [id, { params, response }] of table) {
      const entry = AUDIT_ACTIONS[id as OperationId];
      if (entry === 'none') continue;
      const named = { ...params?.properties, ...(response.schema as { properties?: object }).properties };
      const names = [`${entry.target}Id`, entry.target, 'sandboxId'];
      assert.ok(
        names.some((name) => name in named),
        id,
      );
    }
  });

  it('declares the parameters that its path names, and no others', () => {
    for (const [, { path, params }] of table) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      assert.deepEqual(Object.keys(params?.properties ?? {}), named, path);
    }
  });

  it('the table of operations uses known scopes and known errors', () => {
    for (const [, operation] of table) {
      if (operation.scope !== null) assert.ok((SCOPES as readonly string[]).includes(operation.scope));
      if (operation.scopeExempt) assert.ok(operation.scopeExempt in (operation.params?.properties ?? {}));
      for (const code of errorsOf(operation)) assert.ok(ERROR_CODES.includes(code), code);
    }
  });

  it('the table of operations has `sandbox_paused` among the errors of what wakes or is refused in a pause, and of nothing else', () => {
    const effects: Readonly<Record<string, WhilePaused>> = WHILE_PAUSED;
    for (const [id, operation] of Object.entries(operations)) {
      const needsWake = ['wakes', 'refused'].includes(effects[id] ?? 'answered');
      assert.equal(errorsOf(operation).includes('sandbox_paused'), needsWake, id);
    }
    assert.ok(Object.values(effects).includes('wakes') && Object.values(effects).includes('refused'));
  });

  it('requires the Idempotency-Key where the spec does', () => {
    const required = table.filter(([, { idempotency }]) => idempotency === 'required').map(([id]) => id);
    assert.deepEqual(required.sort(), [
      'createArchiveTransfer',
      'createCommand',
      'createContext',
      'createWorkspaceRun',
      'exportArtifact',
      'extendSandbox',
      'finalizeArchive',
      'runCode',
      'runCommand',
      'setSandboxTtl',
      'startCommand',
      'startWorkspaceRun',
      'streamCode',
      'uploadWorkspaceArchive',
    ]);
  });

  it('points each deprecated alias at an operation that exists', () => {
    for (const [, { deprecation }] of table) {
      if (deprecation) assert.ok(deprecation.successorId in operations);
    }
  });
});

describe('the OpenAPI document', () => {
  const document = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));

  it('the OpenAPI document has every operation of the table, and resolves every reference', () => {
    for (const [id, { method, path }] of table) {
      assert.equal(document.paths[path][method.toLowerCase()].operationId, id);
    }
    for (const [, name = ''] of JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      assert.ok(document.components.schemas[name], name);
    }
  });

  it('the OpenAPI document has the error catalogue, and Retry-After on the answers that ask for a repetition', () => {
    assert.deepEqual(Object.keys(document['x-errors']), ERROR_CODES);
    assert.deepEqual(document['x-errors'].sandbox_ttl_exceeded.details.required, ['maxTtlMs']);
    const { responses } = document.paths['/v1/sandboxes'].post;
    assert.equal(document['x-errors'].unavailable.retryable, 'after');
    assert.deepEqual(
      [503, 422].map((status) => 'Retry-After' in responses[status].headers),
      [true, false],
    );
  });
});

it('the OpenAPI document describes every tag, parameter and field of a request', () => {
  const document = openApiDocument('0.0.0') as {
    tags: { name: string; description?: string }[];
    paths: Record<string, Record<string, { tags: string[]; parameters: Record<string, string>[] }>>;
    components: { schemas: Record<string, { properties?: Record<string, Record<string, unknown>> }> };
  };
  const described = document.tags.filter(({ description }) => description).map(({ name }) => name);
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const { tags, parameters } of Object.values(methods)) {
      for (const tag of tags) assert.ok(described.includes(tag), tag);
      for (const { name, description, $ref } of parameters) assert.ok(description || $ref, `${path} ${name}`);
    }
  }
});

it('the OpenAPI document describes the frames of every stream: event names, data and ids', () => {
  const { paths, components } = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));
  const streams = table.filter(([, { events }]) => events);
  assert.ok(streams.length >= 3);
  for (const [id, { path, method, eventIds }] of streams) {
    const content = paths[path][method.toLowerCase()].responses[200].content['text/event-stream'];
    const frame = components.schemas[content.schema.$ref.split('/').at(-1)];
    assert.ok(frame.properties.event.enum.length >= 3, id);
    assert.ok(frame.properties.event.enum.includes('error'), id);
    assert.equal(frame.properties.data.contentMediaType, 'application/json', id);
    assert.ok(frame.properties.data.contentSchema.anyOf.length >= 2, id);
    assert.equal('id' in frame.properties, eventIds !== undefined, id);
  }
});

it('the OpenAPI document names aliases after everything else', () => {
  const { paths } = openApiDocument('0.0.0') as { paths: Record<string, Record<string, { deprecated?: boolean }>> };
  const aliases = Object.values(paths).map((methods) => Object.values(methods).every(({ deprecated }) => deprecated));
  assert.ok(aliases.includes(true));
  assert.deepEqual(
    aliases,
    aliases.toSorted((one, other) => Number(one) - Number(other)),
  );
});

describe('an Idempotency-Key', () => {
  it('an Idempotency-Key is 1 to 255 printable ASCII characters', () => {
    assert.ok(isIdempotencyKey('a'));
    assert.ok(isIdempotencyKey('~ '.repeat(127)));
    for (const bad of ['', 'a'.repeat(256), 'é', 'a\u0000', 'a\n']) assert.equal(isIdempotencyKey(bad), false);
  });
});

it('the bytes of a map are those of its keys and values in UTF-8', () => {
  assert.equal(mapBytes({ é: '日', a: '' }), 2 + 3 + 1);
});
