import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { mapOf } from './bounded.ts';
import * as protocol from './index.ts';

/** Parts that only another check bounds. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'DatabaseMessage.done': 'a program of the service sends it, and its reader checks it against the schema of the task',
  'KernelOutput.forms.*': 'the reader of a frame bounds the values and levels of a message',
  'FromKernel.forms.*': 'the same schema',
};
const DEEPEST = 12;

interface Schema {
  readonly [keyword: string]: unknown;
  readonly type?: string;
  readonly pattern?: string;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
}

/** Returns the parts of a schema that a message can make as long or as deep as it likes. */
function unbounded(schema: Schema, place: string, depth = 0): string[] {
  if (depth > DEEPEST) return [`${place} has too many levels`];
  const below = (part: Schema | undefined, name: string) => unbounded(part ?? {}, `${place}${name}`, depth + 1);
  if ('const' in schema) return [];
  if (schema.anyOf) return schema.anyOf.flatMap((part) => below(part, ''));
  switch (schema.type) {
    case 'boolean':
    case 'null':
      return [];
    case 'string':
      return 'maxLength' in schema || isBounded(schema.pattern) ? [] : [`${place} has no maximum`];
    case 'integer':
    case 'number':
      return 'maximum' in schema ? [] : [`${place} has no maximum`];
    case 'array':
      return [...('maxItems' in schema ? [] : [`${place} has no maximum`]), ...below(schema.items, '[]')];
    case 'object':
      return [
        ...Object.entries(schema.properties ?? {}).flatMap(([name, part]) => below(part, `.${name}`)),
        ...Object.entries(schema.patternProperties ?? {}).flatMap(([pattern, part]) => [
          ...(isBounded(pattern) && schema.additionalProperties === false ? [] : [`${place} has names of any form`]),
          ...('maxProperties' in schema ? [] : [`${place} has no maximum`]),
          ...below(part, '.*'),
        ]),
      ];
    default:
      return place in ELSEWHERE ? [] : [`${place} may be anything`];
  }
}

/** Returns whether a pattern is about the whole text, and bounds its length. */
function isBounded(pattern: string | undefined): boolean {
  if (!pattern?.startsWith('^') || !pattern.endsWith('$')) return false;
  const outside = pattern.replaceAll(/\\.|\[[^\]]*\]/g, 'x');
  return !/[*+]|\{\d+,\}/.test(outside);
}

const schemas = Object.entries(protocol).filter(
  (entry): entry is [string, Schema & (typeof entry)[1]] =>
    typeof entry[1] === 'object' && entry[1] !== null && '~kind' in entry[1],
);

describe('the schema of a message', () => {
  it('the schema of a message bounds each text, number, list and map, and has few levels', () => {
    assert.ok(schemas.length > 80, `${schemas.length} schemas`);
    assert.deepEqual(
      schemas.flatMap(([name, schema]) => unbounded(schema, name)),
      [],
    );
  });

  it('the schema of a message that lacks a bound is found', () => {
    const parts = {
      text: Type.String(),
      pattern: Type.String({ pattern: '^a{2,}$' }),
      count: Type.Integer({ minimum: 0 }),
      list: Type.Array(Type.Boolean()),
      map: Type.Record(Type.String(), Type.Boolean(), { maxProperties: 3 }),
      any: Type.Unknown(),
    };
    for (const [name, part] of Object.entries(parts)) {
      const within = Type.Object({ [name]: Type.Optional(Type.Union([part, Type.Null()])) });
      assert.equal(unbounded(within as unknown as Schema, 'Message').length, 1, name);
    }
  });

  it('the schema of a message of a map accepts no value of another kind, whatever its name', () => {
    const map = Compile(mapOf(Type.Boolean(), 3));
    assert.ok(map.Check({ a: true, 'b\n': false }));
    for (const value of [{ 'a\nb': [] }, { ['x'.repeat(257)]: true }, { a: true, b: true, c: true, d: true }]) {
      assert.ok(!map.Check(value), JSON.stringify(value));
    }
  });
});
