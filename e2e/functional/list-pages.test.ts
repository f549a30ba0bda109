import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { runInProcess } from '../../packages/clients/cli/testing/run-in-process.ts';
import { sharedService, type TestService } from '../support/service.ts';

const COUNT = 5;

let service: TestService;
let cloche: Cloche;
before(async () => {
  service = await sharedService();
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  for (let index = 0; index < COUNT; index += 1) await cloche.projects.create(`pages-${index}`);
});
after(() => service?.close());

const idsOf = (entries: readonly { id: string }[]) => entries.map(({ id }) => id);

describe('a list of the service', () => {
  it('a list of the service is walked by the SDK in pages, which have what the whole list has', async () => {
    const whole = await cloche.projects.list();
    assert.deepEqual([whole.length > COUNT, whole.hasMore], [true, false]);
    assert.deepEqual(idsOf(await Array.fromAsync(cloche.projects.list({ limit: 2 }))), idsOf(whole));

    const first = await cloche.projects.list({ limit: 2 });
    const rest = await cloche.projects.list({ cursor: first.nextCursor });
    assert.deepEqual([...idsOf(first), ...idsOf(rest)], idsOf(whole));
    const foreign = cloche.secrets.list({ limit: 2, cursor: first.nextCursor });
    await assert.rejects(foreign, { code: 'invalid_request' });
  });

  it('a list of the service is filtered by the SDK by id and time of creation, also in its pages', async () => {
    const runs = [];
    for (let index = 0; index < COUNT; index += 1) runs.push(await cloche.workspaceRuns.create({ command: 'true' }));
    const [oldest, second] = runs;
    assert.ok(oldest && second);
    const later = runs.slice(1).reverse();
    const createdAfter = new Date(oldest.info.createdAt);
    const found = await Array.fromAsync(cloche.workspaceRuns.list({ createdAfter, limit: 1 }));
    assert.deepEqual(idsOf(found), idsOf(later));
    const createdBefore = new Date(second.info.createdAt);
    assert.deepEqual(idsOf(await cloche.workspaceRuns.list({ createdBefore })), [oldest.id]);
    assert.deepEqual(idsOf(await cloche.workspaceRuns.list({ idPrefix: oldest.id.slice(0, -4) })), [oldest.id]);
  });

  it('a list of the service is shown by the command line page by page, by following what it says', async () => {
    const env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
    const shown: string[] = [];
    for (let next: string[] | undefined = []; next; ) {
      const { stdout, stderr } = await runInProcess(['project', 'list', '--limit', '2', ...next], { env });
      shown.push(...(stdout.match(/^prj_\w+/gm) ?? []));
      const cursor: string | undefined = /--cursor (\S+)\n$/.exec(stderr)?.[1];
      next = cursor === undefined ? undefined : ['--cursor', cursor];
    }
    assert.deepEqual(shown, idsOf(await cloche.projects.list()));
    const { stdout } = await runInProcess(['project', 'list', '--limit', '2', '--json'], { env });
    const { data, hasMore, nextCursor } = JSON.parse(stdout);
    assert.deepEqual([data.length, hasMore, typeof nextCursor], [2, true, 'string']);
  });
});
