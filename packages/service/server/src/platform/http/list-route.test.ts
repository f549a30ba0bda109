import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { operations, type Secret } from '@cloche/contract';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { inMemory, newestFirst } from '../db/list.ts';
import type { ListPart } from '../db/list-part.ts';
import { ListCursors } from './list-cursors.ts';
import { listRoute } from './list-route.ts';

interface Entry {
  readonly id: string;
  readonly createdAt: number;
}

interface Page {
  readonly data: { readonly id: string }[];
  readonly hasMore: boolean;
  readonly nextCursor?: string;
}

/** More than one slice of a complete list. */
const COUNT = 1_203;
const entryOf = (index: number): Entry => ({
  id: `sec_${String(index).padStart(5, '0')}`,
  createdAt: Math.floor(index / 3),
});

describe('a list', () => {
  let service: TestService;
  let entries: Entry[] = [];
  /** The limits of all parts that were read. */
  const read: number[] = [];

  before(async () => {
    const readPart = async ({ after: place, limit }: ListPart) => {
      read.push(limit);
      const [at = Number.POSITIVE_INFINITY, id = ''] = place ?? [];
      const follows = (one: Entry) => one.createdAt < Number(at) || (one.createdAt === at && one.id < id);
      const ordered = entries
        .filter(follows)
        .sort((one, other) => other.createdAt - one.createdAt || (one.id < other.id ? 1 : -1));
      return ordered.slice(0, limit);
    };
    const show = ({ id }: Entry) => ({ id }) as Secret;
    service = await startTestService([
      listRoute(operations.listSecrets, () => newestFirst(readPart, show)),
      listRoute(operations.listProjects, () => newestFirst(readPart, show) as never),
    ]);
  });

  after(() => service.close());

  const list = async (query: Record<string, string | number> = {}, path = '/v1/secrets'): Promise<Page> => {
    const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
    const answer = await service.call('GET', `${path}?${text}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body as Page;
  };

  const refusal = async (cursor: string, more: Record<string, string> = {}, path = '/v1/secrets') => {
    const text = new URLSearchParams({ limit: '2', ...more, cursor });
    const { status, body } = await service.call('GET', `${path}?${text}`);
    const { code, details } = (
      body as { error: { code: string; details: { issues: { path: string; message: string }[] } } }
    ).error;
    return [status, code, details.issues[0]?.path, details.issues[0]?.message];
  };

  const all = () => Array.from({ length: COUNT }, (_, index) => entryOf(COUNT - 1 - index).id);

  it('a list is complete without a limit, read in slices of bounded size', async () => {
    entries = Array.from({ length: COUNT }, (_, index) => entryOf(index));
    read.length = 0;
    const { data, hasMore, nextCursor } = await list();
    assert.deepEqual([data.map(({ id }) => id), hasMore, nextCursor], [all(), false, undefined]);
    assert.ok(read.length > 2 && Math.max(...read) <= 500, String(read));
  });

  it('a list has each entry once in its pages, and says truly whether there are more', async () => {
    for (const [limit, count] of [
      [1, 5],
      [7, COUNT],
      [401, COUNT],
      [500, COUNT],
    ] as const) {
      entries = Array.from({ length: count }, (_, index) => entryOf(index));
      const ids: string[] = [];
      let page = await list({ limit });
      for (; page.nextCursor !== undefined; page = await list({ limit, cursor: page.nextCursor })) {
        assert.deepEqual([page.data.length, page.hasMore], [limit, true]);
        ids.push(...page.data.map(({ id }) => id));
      }
      assert.equal(page.hasMore, false);
      ids.push(...page.data.map(({ id }) => id));
      assert.deepEqual(ids, all().slice(COUNT - count));
    }
  });

  it('a list has no next page after exactly as many entries as the limit', async () => {
    entries = [1, 2, 3].map(entryOf);
    assert.deepEqual(await list({ limit: 3 }), {
      data: [3, 2, 1].map((index) => ({ id: entryOf(index).id })),
      hasMore: false,
    });
    assert.equal((await list({ limit: 2 })).hasMore, true);
  });

  it('neither repeats nor loses an entry in its pages while others are added and removed', async () => {
    entries = Array.from({ length: 20 }, (_, index) => entryOf(index));
    const seen: string[] = [];
    let next = 20;
    for (let cursor: string | undefined; ; ) {
      const page: Page = await list({ limit: 3, ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...page.data.map(({ id }) => id));
      // The entry that the cursor names goes too.
      entries = [...entries.filter(({ id }) => id !== page.data.at(-1)?.id), entryOf(next), entryOf(next + 1)];
      next += 2;
      if (!page.hasMore) break;
      cursor = page.nextCursor;
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 20 }, (_, index) => entryOf(19 - index).id),
    );
  });

  it('a list returns all that follows for a cursor without a limit', async () => {
    entries = [1, 2, 3, 4].map(entryOf);
    const { nextCursor = '' } = await list({ limit: 1 });
    assert.deepEqual((await list({ cursor: nextCursor })).data.length, 3);
  });

  it('a list refuses a cursor of another list, organization or filter', async () => {
    entries = [1, 2, 3, 4].map(entryOf);
    const { nextCursor = '' } = await list({ limit: 2 });
    const foreign = [
      400,
      'invalid_request',
      'query.cursor',
      'is not one of this list with these parameters; request the first page again',
    ];
    assert.deepEqual(await refusal(nextCursor, { projectId: 'prj_1' }), foreign);
    assert.deepEqual(await refusal(nextCursor, {}, '/v1/projects'), foreign);
    const cursors = new ListCursors(Buffer.alloc(32));
    const scope = { operationId: 'listSecrets', orgId: 'org_elsewhere', params: {}, filters: {} };
    assert.deepEqual(await refusal(cursors.write(scope, [1, 'sec_1'])), foreign);
    assert.equal((await list({ limit: 500, cursor: nextCursor })).data.length, 2);
  });

  it('a list refuses a cursor that was changed in any character, and one of another version', async () => {
    entries = [1, 2, 3, 4].map(entryOf);
    const { nextCursor = '' } = await list({ limit: 2 });
    for (let at = 0; at < nextCursor.length; at += 1) {
      const changed = `${nextCursor.slice(0, at)}${nextCursor[at] === 'A' ? 'B' : 'A'}${nextCursor.slice(at + 1)}`;
      assert.deepEqual((await refusal(changed)).slice(0, 3), [400, 'invalid_request', 'query.cursor'], changed);
    }
    for (const text of [`${nextCursor}.`, `${nextCursor}.x`, ` ${nextCursor}`, '.', 'x']) {
      assert.deepEqual((await refusal(text)).slice(0, 3), [400, 'invalid_request', 'query.cursor'], text);
    }
    const [, , , message] = await refusal(nextCursor.replace(/^1\./, '0.'));
    assert.match(String(message), /^is of another version/);
  });

  it('a list refuses a limit outside of 1 to 500', async () => {
    for (const limit of ['0', '501', '-1', '1.5', 'x', '']) {
      const { status } = await service.call('GET', `/v1/secrets?limit=${limit}`);
      assert.equal(status, 400, limit);
    }
  });
});

it('a list in memory has the same pages, also after the entry that a cursor names has gone', async () => {
  const listOf = (names: string[]) =>
    inMemory(names, (name) => [0, name], { follows: (name, [, gone]) => name > gone, show: (name) => name });
  assert.deepEqual(await listOf(['a', 'b', 'd']).read({ limit: 2 }), ['a', 'b']);
  assert.deepEqual(await listOf(['a', 'c', 'd']).read({ after: [0, 'b'], limit: 2 }), ['c', 'd']);
  assert.deepEqual(await listOf(['a']).read({ after: [0, 'b'], limit: 2 }), []);
});
