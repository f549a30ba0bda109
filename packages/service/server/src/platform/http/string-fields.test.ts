/**
 * Compares the OpenAPI document with the service in both directions, for each string field of a request: what the
 * document allows is not refused for that field, and what it forbids is refused.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type Operation, openApiDocument, operations } from '@cloche/contract';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { openPreviewWorld, type PreviewWorld } from '../../../testing/previews.ts';
import { exampleOf, type Schema } from '../../../testing/schema-mutants.ts';

/** Texts of many forms: each is what some field takes and others refuse. */
const TEXTS = [
  '',
  ' ',
  'a',
  '-',
  'a b',
  'a/b',
  '../a',
  '/workspace/a',
  'a_b-c',
  '_a',
  'é',
  '😀',
  'a\nb',
  'a\0b',
  'true',
  'python',
  '/',
  '*.example.com',
  'example.com:443',
  'EXAMPLE.com',
  '192.0.2.1',
  'https://example.com/a',
  'http://example.com',
  'ftp://example.com',
  '//example.com',
  'https://',
  'https://user:pass@example.com/',
  ' https://example.com/a',
  'https://example.com/a b',
  'https:example.com',
  'HTTPS://example.com?a=@',
  'https://é.example/',
  'mailto:a@example.com',
  '2026-01-31',
  '2026-02-30',
  '2026-02-29T09:00:00Z',
  '2026-01-31T09:00Z',
  '2026-01-31T09:00:00Z',
  '2026-01-31t09:00:00.123456+05:30',
  '2026-01-31T09:00:00',
  '2026-01-31T25:00:00Z',
  'sandbox.created',
  'sandbox.created,run.finished',
  'sandbox.*',
  'sbx_0123456789abcdefghij',
  'prj_0123456789abcdefghij',
  'YQ==',
  'sha-256=:YQ==:',
  'other=:YQ==:;a=b, x=::',
  '{}',
  '{"a":"b"}',
  '{"a":1}',
  '{"a":',
  '17',
  'YQ',
  '0644',
  'SIGNOPE',
  'x'.repeat(65),
  'x'.repeat(257),
  'a'.repeat(64),
];
/** Enough where the document has only lengths. */
const OF_FREE_TEXT = ['', ' ', 'a', 'é', '😀', 'a b', 'a\nb', "a'b", '../a', 'x'.repeat(257)];

type Exceptions = Readonly<Record<string, readonly [texts: RegExp, reason: string]>>;

/** Texts that the service refuses although the document allows them, because no schema could say it. */
const NARROWER: Exceptions = {
  'query.cursor': [/^/, 'is one that an answer has given for the same list'],
  'body.cwd': [/^/, 'is a directory of the sandbox, and that of the context'],
  'body.pause.memory': [/^drop$/, 'is not together with `wake: traffic`, which the example has'],
  'body.expiresAt': [/^2026-01-31/, 'lies in the future'],
  'body.url': [/^http:/, 'is permitted by the operator'],
  'headers.content-digest': [/^sha-256=:YQ==:$/, 'has the length of its algorithm'],
  'headers.file-attributes': [/^\{"a":1\}$/, 'is JSON, whose values are texts'],
};
/** Texts that the service takes although the document does not allow them. */
const WIDER: Exceptions = {
  'body.url': [/^https:\/\/é/, 'has a name outside ASCII, which is converted as browsers do'],
  ...Object.fromEntries(
    ['from', 'to', 'createdAfter', 'createdBefore'].map((name) => [
      `query.${name}`,
      [/T09:00Z$/, 'is ISO 8601 without seconds, as forms of browsers have it'] as const,
    ]),
  ),
};

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: Schema;
}

/** A string field, and how a request with a value of it is made. */
interface Field {
  /** As issues name it, such as `body.networkPolicy.mode`. */
  readonly path: string;
  readonly schema: Schema;
  readonly put: (text: string) => Asked | undefined;
}

interface Asked {
  readonly params?: Record<string, string>;
  readonly query?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

const document = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));
const all = Object.values(operations) as Operation[];

function resolve(schema: Schema): Schema {
  const { $ref } = schema as { $ref?: string };
  if ($ref === undefined) return schema;
  const names = $ref.slice(2).split('/');
  return resolve(names.reduce((value, name) => value[name], document));
}

function inlined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inlined);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(resolve(value as Schema));
  return Object.fromEntries(entries.filter(([key]) => key !== 'examples').map(([key, child]) => [key, inlined(child)]));
}

const described = ({ path, method }: Operation) => document.paths[path][method.toLowerCase()];

/** Returns the string fields of a value, with how the value looks with another text there. */
function fieldsIn(
  schema: Schema,
  good: unknown,
  path: string,
  rebuild: (value: unknown) => unknown,
): { path: string; schema: Schema; put: (text: string) => unknown }[] {
  const { type, anyOf, properties = {}, items } = resolve(schema) as Schema & { properties?: Record<string, Schema> };
  if (type === 'string') return [{ path, schema: resolve(schema), put: rebuild }];
  if (Array.isArray(anyOf) && type === undefined) {
    const branches = (anyOf as Schema[]).map(resolve);
    const sole = branches.filter((branch) => branch.type !== 'null');
    return sole.length === 1 ? fieldsIn(sole[0] as Schema, good, path, rebuild) : [];
  }
  if (type === 'array' && items) {
    const [first] = Array.isArray(good) ? good : [];
    return fieldsIn(items as Schema, first ?? exampleOf(resolve(items as Schema)), `${path}[0]`, (value) =>
      rebuild([value]),
    );
  }
  if (type !== 'object') return [];
  const object = (typeof good === 'object' && good !== null && !Array.isArray(good) ? good : {}) as Record<
    string,
    unknown
  >;
  // Hosts are for two of the modes.
  if ('hosts' in properties && 'mode' in properties) object.mode = 'allowlist';
  return Object.entries(properties).flatMap(([name, property]) =>
    fieldsIn(property, object[name] ?? exampleOf(resolve(property)), `${path}.${name}`, (value) =>
      rebuild({ ...object, [name]: value }),
    ),
  );
}

function fieldsOf(operation: Operation): Field[] {
  const { parameters = [], requestBody } = described(operation);
  const named: Parameter[] = parameters.map(resolve);
  const required = (operation.query?.required ?? []).map((name) => [name, 'x']);
  // A text that is allowed would otherwise be waited for.
  if (named.some(({ name }) => name === 'waitMs')) required.push(['waitMs', '0']);
  const inQuery = named
    .filter((parameter) => parameter.in === 'query' && resolve(parameter.schema).type === 'string')
    .map(({ name, schema }): Field => {
      const others = required.filter(([other]) => other !== name);
      const put = (text: string) => ({
        query: new URLSearchParams([...others, [name, text]] as string[][]).toString(),
      });
      return { path: `query.${name}`, schema: resolve(schema), put };
    });
  const body = requestBody?.content?.['application/json']?.schema;
  const inBody = body
    ? fieldsIn(body, exampleOf(resolve(body)), 'body', (value) => value).map(({ put, ...field }): Field => {
        return { ...field, put: (text) => ({ body: put(text) }) };
      })
    : [];
  const good = body ? { body: exampleOf(resolve(body)) } : {};
  const elsewhere = named
    .filter((parameter) => ['path', 'header'].includes(parameter.in) && parameter.name !== 'Idempotency-Key')
    .map(({ name, in: place, schema }): Field => {
      const others = { ...good, query: new URLSearchParams(required as string[][]).toString() };
      // A URL cannot have the others as one part of its path, and a header cannot have them at all.
      const isPossible = (text: string) =>
        place === 'path' ? !/^\.{0,2}$/.test(text) : /^[!-~]([ -~]*[!-~])?$/.test(text);
      const put = (text: string) => {
        if (!isPossible(text)) return undefined;
        return place === 'path' ? { ...others, params: { [name]: text } } : { ...others, headers: { [name]: text } };
      };
      return { path: `${place === 'path' ? 'params' : 'headers'}.${name}`, schema: resolve(schema), put };
    });
  return [...inQuery, ...inBody, ...elsewhere];
}

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

async function send({ id, path, method }: Operation, { params = {}, query, body, headers = {} }: Asked) {
  // The sandbox stays for the other operations.
  const ids: Record<string, string> =
    id === 'killSandbox' ? {} : { sandboxId: world.sandboxId, template: 'python-node' };
  const filled = path.replace(/\{(\w+)\}/g, (_, name) =>
    encodeURIComponent(params[name] ?? ids[name] ?? `${name}_none`),
  );
  const response = await fetch(`${world.server.url}${filled}${query === undefined ? '' : `?${query}`}`, {
    method,
    headers: {
      authorization: `Bearer ${world.key}`,
      'idempotency-key': randomUUID(),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    signal: AbortSignal.timeout(20_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.headers.get('content-type')?.startsWith('application/json')) {
    await response.body?.cancel();
    return { code: undefined, issues: [] };
  }
  // biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
  const answer: any = await response.json();
  return {
    code: answer.error?.code,
    issues: (answer.error?.details?.issues ?? []) as { path: string; message: string }[],
  };
}

const isFree = ({ pattern, format, enum: values, const: constant, anyOf }: Schema) =>
  [pattern, format, values, constant, anyOf].every((keyword) => keyword === undefined);

/** Of the texts that a schema forbids, as many are sent for each further field that has the schema. */
const FORBIDDEN_AGAIN = 2;
/** How many fields of each path and schema there were so far. */
const fieldsOfSchema = new Map<string, number>();

/**
 * Returns the texts for a field. What the schema allows reaches the code of each operation. What it forbids, equal
 * validators refuse for all operations: later ones get other texts in turns, which show whether they validate at all.
 */
function textsFor({ path, schema }: Field, isAllowed: (text: string) => boolean): string[] {
  const texts = [...(isFree(schema) ? OF_FREE_TEXT : TEXTS), ...((schema.enum as string[] | undefined) ?? [])];
  const { true: allowed = [], false: forbidden = [] } = Object.groupBy(new Set(texts), (text) => `${isAllowed(text)}`);
  const of = `${path} ${JSON.stringify(inlined(schema))}`;
  const earlier = fieldsOfSchema.get(of) ?? 0;
  fieldsOfSchema.set(of, earlier + 1);
  if (earlier === 0) return [...allowed, ...forbidden];
  const first = (earlier * FORBIDDEN_AGAIN) % Math.max(forbidden.length, 1);
  return [...allowed, ...[...forbidden, ...forbidden].slice(first, first + FORBIDDEN_AGAIN)];
}

/** Returns in what the document and the service differ about a field. */
async function differences(operation: Operation, field: Field): Promise<string[]> {
  const { path, schema, put } = field;
  const documented = Compile(inlined(schema) as TSchema);
  const found: string[] = [];
  for (const text of textsFor(field, (each) => documented.Check(each))) {
    const isAllowed = documented.Check(text);
    const [excepted] = (isAllowed ? NARROWER : WIDER)[path] ?? [];
    const asked = excepted?.test(text) ? undefined : put(text);
    if (asked === undefined) continue;
    const { code, issues } = await send(operation, asked);
    const isRefused = issues.length === 0 || issues.some((issue) => path.startsWith(issue.path));
    const shown = `${operation.id} ${path} ${JSON.stringify(text.slice(0, 40))}`;
    if (isAllowed && code === 'invalid_request' && isRefused) found.push(`narrower: ${shown}: ${issues[0]?.message}`);
    // An id that cannot be one is as unknown as others are. Before an upload or a stream, it is looked up first.
    const isLookedUp = path.startsWith('params.') || (path.startsWith('headers.') && code === 'not_found');
    const refusals = isLookedUp ? ['invalid_request', 'not_found'] : ['invalid_request'];
    if (!isAllowed && !refusals.includes(code)) found.push(`wider: ${shown}: ${code}`);
  }
  return found;
}

describe('the document and the service agree on the texts of', () => {
  for (const operation of all) {
    const fields = fieldsOf(operation);
    if (fields.length === 0) continue;
    it(`${operation.id}`, async () => {
      const found = (await Promise.all(fields.map((field) => differences(operation, field)))).flat();
      const unexplained = found.filter((difference) => {
        const [kind, , path = ''] = difference.split(' ');
        return !(
          (kind === 'narrower:' ? NARROWER : WIDER)[path] ||
          (kind === 'narrower:' ? NARROWER : WIDER)[`${operation.id} ${path}`]
        );
      });
      assert.deepEqual(unexplained, []);
    });
  }
});
