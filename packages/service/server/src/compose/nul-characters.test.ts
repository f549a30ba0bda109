/** The character NUL, which PostgreSQL stores in no text, in each text of each operation. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type Operation, openApiDocument, operations } from '@cloche/contract';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

type Schema = Readonly<Record<string, unknown>>;
/** Where a text is in a body: names of fields, and 0 for an element of a list. */
type Place = readonly (string | 0)[];

const document = JSON.parse(JSON.stringify(openApiDocument('0.0.0')));
const all = Object.values(operations) as Operation[];
/** Texts that are programs or their input. */
const MAY_HAVE_NUL = new Set(['code', 'stdin', 'data']);

let tenants: Tenants;
let powerless: string;
before(async () => {
  tenants = await openTenants();
  powerless = (await tenants.operator('/keys', { scopes: ['usage:read'] })).key.secret;
});
after(() => tenants.close());

function resolve(schema: Schema): Schema {
  const { $ref } = schema as { $ref?: string };
  return $ref === undefined
    ? schema
    : $ref
        .slice(2)
        .split('/')
        .reduce((value, name) => value[name], document);
}

/** Returns the places of all texts of a schema. */
function textsOf(given: Schema): Place[] {
  const { type, properties = {}, patternProperties = {}, items, anyOf = [], prefixItems } = resolve(given);
  const under = (name: string | 0, schema: unknown) => textsOf(schema as Schema).map((rest) => [name, ...rest]);
  return [
    ...([type].flat().includes('string') ? [[]] : []),
    ...Object.entries(properties as object).flatMap(([name, schema]) => under(name, schema)),
    ...Object.values(patternProperties as object).flatMap((schema) => under('x', schema)),
    ...(items || prefixItems ? under(0, items || (prefixItems as Schema[])[0]) : []),
    ...(anyOf as Schema[]).flatMap(textsOf),
  ];
}

/** Returns a body with `value` at the place, and nothing else. */
function bodyWith(place: Place, value: unknown): unknown {
  const [name, ...rest] = place;
  if (name === undefined) return value;
  const inner = bodyWith(rest, value);
  return name === 0 ? [inner] : { [name]: inner };
}

/** Requires a refusal that names the field. */
async function refused(operation: Operation, path: string, field: string, body?: unknown): Promise<void> {
  const idempotencyKey = operation.idempotency === 'none' ? undefined : randomUUID();
  const answer = await tenants.call(tenants.keys.whole, operation.method, path, { body, idempotencyKey });
  assert.deepEqual([answer.status, answer.body.error?.code], [400, 'invalid_request'], `${field}: ${answer.status}`);
  const issue = answer.body.error.details.issues.find((one: { path: string }) => one.path === field);
  assert.match(issue?.message ?? '', /NUL/, `${field}: ${JSON.stringify(answer.body)}`);
}

const named = (path: string) => path.replace(/\{\w+\}/g, 'x');

describe('NUL', () => {
  for (const operation of all) {
    const { id, path, params, query } = operation;
    const described = document.paths[path][operation.method.toLowerCase()];
    const body: Schema | undefined = described.requestBody?.content?.['application/json']?.schema;
    const places = body ? textsOf(body).filter(([name]) => !MAY_HAVE_NUL.has(String(name))) : [];

    it(`NUL in a text of ${id} is refused by the name of its field`, async () => {
      for (const name of Object.keys(params?.properties ?? {})) {
        const withNul = named(path.replace(`{${name}}`, 'x%00y'));
        await refused(operation, withNul, `params.${name}`, body && {});
        const { status } = await tenants.call(powerless, operation.method, withNul, { body: body && {} });
        assert.ok(status < 500, `${status} to a key without the scope`);
      }
      const texts = Object.entries(query?.properties ?? {}).filter(
        ([, schema]) => textsOf(schema as Schema).length > 0,
      );
      for (const [name] of texts) {
        await refused(operation, `${named(path)}?${name}=x%00y`, `query.${name}`, body && {});
      }
      for (const place of places) {
        await refused(operation, named(path), ['body', ...place].join('.'), bodyWith(place, 'x\0y'));
      }
    });
  }

  it('in a program and in its input is run, and its output replayed', async () => {
    const { keys, call } = tenants;
    const sandbox = `/v1/sandboxes/${await tenants.createSandbox(keys.whole)}`;
    const request = { body: { code: 'print a\0b', language: 'python' }, idempotencyKey: randomUUID() };
    const first = await call(keys.whole, 'POST', `${sandbox}/code/runs`, request);
    assert.equal(first.status, 200, JSON.stringify(first.body));
    assert.equal(first.body.run.stdout, 'a\0b\n');
    assert.deepEqual((await call(keys.whole, 'POST', `${sandbox}/code/runs`, request)).body, first.body);
    const command = { body: { command: ['bash', 'print x'], stdin: 'a\0b' }, idempotencyKey: randomUUID() };
    assert.equal((await call(keys.whole, 'POST', `${sandbox}/commands`, command)).status, 201);
  });
});

describe('the texts of all operations', () => {
  it('the texts of all operations are found', () => {
    const bodies = all.flatMap(({ path, method }) => {
      const content = document.paths[path][method.toLowerCase()].requestBody?.content?.['application/json'];
      return content ? textsOf(content.schema).map((place) => place.join('.')) : [];
    });
    for (const place of ['metadata.x', 'env.x', 'networkPolicy.hosts.0', 'path', 'name', 'command', 'command.0']) {
      assert.ok(bodies.includes(place), `${place} of ${bodies.join(' ')}`);
    }
  });
});
