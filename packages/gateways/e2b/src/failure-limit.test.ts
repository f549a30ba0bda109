import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FailureLimit } from './failure-limit.ts';

it('the limit of failures refuses an address that failed too often, for as long as it takes, and no other', () => {
  let now = 1000;
  const limit = new FailureLimit(() => now);
  for (let count = 0; count < 20; count++) {
    assert.equal(limit.waitMs('one'), 0);
    limit.failed('one');
  }
  assert.equal(limit.waitMs('one'), 1000);
  assert.equal(limit.waitMs('other'), 0);
  now += 1000;
  assert.equal(limit.waitMs('one'), 0);
});

it('the limit of failures refuses all addresses when they fail too often together', () => {
  let now = 1000;
  const limit = new FailureLimit(() => now);
  for (let count = 0; count < 100; count++) limit.failed(`address ${count}`);
  assert.equal(limit.waitMs('another'), 100);
  now += 100;
  assert.equal(limit.waitMs('another'), 0);
});
