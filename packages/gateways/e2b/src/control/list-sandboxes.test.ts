import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import type { Cloche } from '@cloche/sdk';
import { listSandboxes } from './list-sandboxes.ts';

/** Some pages of `/v1`, the last one not full. */
const COUNT = 2 * LIMITS.listPage + 200;
const startedAt = (index: number) => new Date(Date.UTC(2026, 0, 1) + index * 1000).toISOString();
const SANDBOXES = Array.from({ length: COUNT }, (_, index) => ({
  id: `sbx_${index}`,
  status: 'ready',
  templateSlug: index % 7 === 0 ? 'node' : 'python-node',
  createdAt: startedAt(index),
}));

interface Query {
  limit?: number;
  cursor?: string;
  createdAfter?: string;
}

/** Lists sandboxes as `/v1` does, newest first, and refuses to list all of them at once. */
const cloche = {
  async call(id: string, { query }: { query: Query }) {
    assert.equal(id, 'listSandboxes');
    const { limit = Number.POSITIVE_INFINITY, cursor = '0', createdAfter = '' } = query;
    assert.ok(limit <= LIMITS.listPage, `a page of ${limit}`);
    const all = SANDBOXES.filter(({ createdAt }) => createdAt > createdAfter).reverse();
    const to = Number(cursor) + limit;
    return { data: all.slice(Number(cursor), to), ...(to < all.length && { nextCursor: String(to) }) };
  },
  // Sound: the function calls nothing else.
} as unknown as Cloche;

describe('a list of E2B of more sandboxes than a page of /v1 has', () => {
  for (const order of ['asc', 'desc'] as const) {
    for (const template of [undefined, 'node']) {
      for (const limit of template ? ['13', '100'] : ['100']) {
        it(`a list of E2B of more sandboxes than a page of /v1 has has each once by pages of ${limit}, in order ${order}, of ${template ?? 'all templates'}`, async () => {
          const ids: string[] = [];
          for (let nextToken: string | undefined = '', isFirst = true; nextToken !== undefined; isFirst = false) {
            const page = await listSandboxes(cloche, {
              order,
              limit,
              ...(template && { template }),
              ...(!isFirst && { nextToken }),
            });
            assert.ok(page.sandboxes.length <= Number(limit));
            ids.push(...page.sandboxes.map((sandbox) => sandbox.id));
            nextToken = page.nextToken;
          }
          const expected = SANDBOXES.filter(({ templateSlug }) => [undefined, templateSlug].includes(template));
          const found = expected.map((sandbox) => sandbox.id);
          assert.deepEqual(ids, order === 'asc' ? found : found.reverse());
        });
      }
    }
  }
});
