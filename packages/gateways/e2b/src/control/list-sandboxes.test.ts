import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import type { Cloche } from '@cloche/sdk';
import { type ListQuery, listSandboxes } from './list-sandboxes.ts';

/** Some pages of `/v1`, the last one not full. */
const COUNT = 2 * LIMITS.listPage + 200;
const startedAt = (index: number) => new Date(Date.UTC(2026, 0, 1) + index * 1000).toISOString();
const SANDBOXES = Array.from({ length: COUNT }, (_, index) => ({
  id: `sbx_${index}`,
  status: 'ready',
  templateSlug: index % 7 === 0 ? 'node' : 'python-node',
  createdAt: startedAt(index),
  // Some were woken after all were created.
  sessionStartedAt: startedAt(index % 9 === 0 ? index + COUNT : index),
  isPaused: index % 5 === 0,
}));

let requests = 0;

interface Query {
  limit?: number;
  cursor?: string;
  createdAfter?: string;
  createdBefore?: string;
  paused?: string;
}

/** Lists sandboxes as `/v1` does, newest first, and refuses to list all of them at once. */
const cloche = {
  async call(id: string, { query }: { query: Query }) {
    assert.equal(id, 'listSandboxes');
    const { limit = Number.POSITIVE_INFINITY, cursor = '0', createdAfter = '', createdBefore = '~' } = query;
    assert.ok(limit <= LIMITS.listPage, `a page of ${limit}`);
    requests += 1;
    const inTime = SANDBOXES.filter(({ createdAt }) => createdAt > createdAfter && createdAt < createdBefore);
    const all = inTime.filter(({ isPaused }) => [undefined, String(isPaused)].includes(query.paused)).reverse();
    const to = Number(cursor) + limit;
    return { data: all.slice(Number(cursor), to), ...(to < all.length && { nextCursor: String(to) }) };
  },
  // Sound: the function calls nothing else.
} as unknown as Cloche;

type Sandbox = (typeof SANDBOXES)[number];
type Filter = Pick<ListQuery, 'template' | 'state' | 'startedAfter'>;

/** Lists all that a query asks for, by its pages. */
async function listAll(query: ListQuery): Promise<string[]> {
  const ids: string[] = [];
  for (let nextToken: string | undefined = '', isFirst = true; nextToken !== undefined; isFirst = false) {
    const page = await listSandboxes(cloche, { ...query, ...(!isFirst && { nextToken }) });
    assert.ok(page.sandboxes.length <= Number(query.limit));
    ids.push(...page.sandboxes.map((sandbox) => sandbox.id));
    nextToken = page.nextToken;
  }
  return ids;
}

describe('a list of E2B of more sandboxes than a page of /v1 has', () => {
  const FROM = startedAt(COUNT - 100);
  const CASES: readonly [what: string, limit: string, filter: Filter, selects: (sandbox: Sandbox) => boolean][] = [
    ['of all', '100', {}, () => true],
    ['of a template', '13', { template: 'node' }, ({ templateSlug }) => templateSlug === 'node'],
    ['of a template', '100', { template: 'node' }, ({ templateSlug }) => templateSlug === 'node'],
    ['of running ones', '100', { state: 'running' }, ({ isPaused }) => !isPaused],
    ['of paused ones', '100', { state: ['paused'] }, ({ isPaused }) => isPaused],
    ['of both states', '100', { state: 'paused,running' }, () => true],
    ['of sessions', '40', { startedAfter: FROM }, ({ sessionStartedAt }) => sessionStartedAt >= FROM],
  ];
  for (const order of ['asc', 'desc'] as const) {
    for (const [what, limit, filter, selects] of CASES) {
      it(`a list of E2B of more sandboxes than a page of /v1 has has each once by pages of ${limit}, in order ${order}, ${what}`, async () => {
        const found = SANDBOXES.filter(selects).map(({ id }) => id);
        assert.ok(found.length > Number(limit), `${found.length} sandboxes`);
        assert.deepEqual(await listAll({ order, limit, ...filter }), order === 'asc' ? found : found.reverse());
      });
    }
  }

  it('a list of E2B with pages of one sandbox reads /v1 once for a page, and no more often than its pages for a filter', async () => {
    requests = 0;
    await listSandboxes(cloche, { limit: '1' });
    assert.equal(requests, 1);
    await listSandboxes(cloche, { limit: '1', startedAfter: startedAt(2 * COUNT) });
    assert.equal(requests - 1, Math.ceil(COUNT / LIMITS.listPage));
  });
});
