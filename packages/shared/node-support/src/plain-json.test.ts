import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parsePlainJson, TooDeepError, TooManyValuesError } from './plain-json.ts';

const MANY = 1 << 20;

describe('reading plain JSON', () => {
  const strings = {
    'a long one': 'x'.repeat(MANY),
    'one that looks like values': '[{"a":[1,2],},'.repeat(MANY / 8),
    'one of quotes and backslashes': '\\"\\\\"\\'.repeat(MANY / 8),
    'one of other scripts': 'é—✓😀"'.repeat(MANY / 8),
  };
  for (const [name, data] of Object.entries(strings)) {
    it(`reading plain JSON takes a string, ${name}`, () => {
      const event = { type: 'stdout', runId: 'run_1', data };
      assert.deepEqual(parsePlainJson(JSON.stringify(event), 1000), event);
    });
  }

  const floods = {
    'of arrays in arrays': `[${'[[]],'.repeat(MANY)}`,
    'of empty objects': `[${'{},'.repeat(MANY)}{}]`,
    'of numbers': `[${'1,'.repeat(MANY)}1]`,
    'behind a string': `["${'\\"'.repeat(MANY)}",${'[],'.repeat(MANY)}1]`,
    'of empty strings': `[${'"",'.repeat(MANY)}1]`,
  };
  for (const [name, text] of Object.entries(floods)) {
    it(`reading plain JSON refuses a flood ${name} before it makes the values`, () => {
      assert.throws(() => parsePlainJson(text, 1000), TooManyValuesError);
    });
  }

  it('reading plain JSON refuses more levels than asked for, however few values they are, and takes as many', () => {
    const nested = (levels: number) => `${'{"a":['.repeat(levels / 2)}${']}'.repeat(levels / 2)}`;
    assert.throws(() => parsePlainJson(nested(20_000), 1_000_000), TooDeepError);
    assert.throws(() => parsePlainJson(nested(12), 100, 11), TooDeepError);
    assert.deepEqual(parsePlainJson(nested(12), 100, 12), JSON.parse(nested(12)));
    const besides = `[${Array(50).fill(nested(4))}]`;
    assert.deepEqual(parsePlainJson(besides, 1000, 5), JSON.parse(besides));
  });

  it('reading plain JSON leaves what is no JSON to the parser', () => {
    for (const text of ['', '{oops', `"${'x'.repeat(MANY)}`, `"${'\\'.repeat(MANY)}`]) {
      assert.throws(() => parsePlainJson(text, 1000), SyntaxError);
    }
  });
});
