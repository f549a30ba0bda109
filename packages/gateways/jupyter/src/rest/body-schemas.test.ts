import assert from 'node:assert/strict';
import { it } from 'node:test';
import { unboundedParts } from '@cloche/testkit/unbounded-parts';
import { BODY_SCHEMAS } from './body-schemas.ts';

for (const [name, schema] of Object.entries(BODY_SCHEMAS)) {
  it(`the body of a ${name} has a maximum for each text, list and number of fields`, () => {
    assert.deepEqual(unboundedParts(schema), []);
  });
}
