import assert from 'node:assert/strict';
import { it } from 'node:test';
import { timeOf } from './query-time.ts';

it('a time of a query is any that RFC 3339 allows, or a day', () => {
  const nine = Date.UTC(2026, 0, 31, 9);
  for (const text of [
    '2026-01-31T09:00:00Z',
    '2026-01-31t09:00:00z',
    '2026-01-31T09:00Z',
    '2026-01-31T09:00:00.000Z',
    // As Python writes them.
    '2026-01-31T09:00:00.000000+00:00',
    '2026-01-31T14:30:00.000000000+05:30',
  ])
    assert.equal(timeOf('from', text), nine, text);
  assert.equal(timeOf('from', '2026-01-31'), Date.UTC(2026, 0, 31));
  assert.equal(timeOf('from', '2028-02-29'), Date.UTC(2028, 1, 29));
});

it('a time of a query is nothing else', () => {
  for (const text of [
    '',
    'nope',
    '2026',
    '2026-13-01',
    '2026-02-29',
    '2026-02-30',
    '2026-04-31T09:00:00Z',
    '2026-01-01T25:00:00Z',
    '2026-01-31T09:00:00',
    '1769850000',
    '//x',
  ])
    assert.throws(() => timeOf('from', text), /query.from/, text);
});
