import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parsePlainJson, TooManyValuesError } from './plain-json.ts';

const MANY = 1 << 20;

describe('reading plain JSON', () => {
  const strings = {
    'a long one': 'x'.repeat(MANY),
    'one that looks like values': '[{"a":[1,2],},'.repeat(MANY / 8),
    'one of quotes and backslashes': '\\"\\\\"\\'.repeat(MANY / 8),
    'one of other scripts': 'é—✓😀"'.repeat(MANY / 8),
  };
  for (const [name, data] of Object.entries(strings)) {
    it(`takes a string, ${name}`, () => {
      const event = { type: 'stdout', runId: 'run_1', data };
      assert.deepEqual(parsePlainJson(JSON.stringify(event), 1000), event);
    });
  }

  const floods = {
    'of arrays in arrays': '['.repeat(MANY),
    'of empty objects': `[${'{},'.repeat(MANY)}{}]`,
    'of numbers': `[${'1,'.repeat(MANY)}1]`,
    'behind a string': `["${'\\"'.repeat(MANY)}",${'[],'.repeat(MANY)}1]`,
    'of empty strings': `[${'"",'.repeat(MANY)}1]`,
  };
  for (const [name, text] of Object.entries(floods)) {
    it(`refuses a flood ${name} before it makes the values`, () => {
      assert.throws(() => parsePlainJson(text, 1000), TooManyValuesError);
    });
  }

  it('leaves what is short, or no JSON, to the parser', () => {
    assert.deepEqual(parsePlainJson('[[],[],{}]', 1), [[], [], {}]);
    for (const text of ['', '{oops', `"${'x'.repeat(MANY)}`, `"${'\\'.repeat(MANY)}`]) {
      assert.throws(() => parsePlainJson(text, 1000), SyntaxError);
    }
  });
});
