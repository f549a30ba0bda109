/** Walks every list of the contract that has pages, over a whole server. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type Operation, operations } from '@cloche/contract';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

/** Resources of each kind, created as fast as the server answers, so that several have one millisecond. */
const COUNT = 5;

interface ListCase {
  /** Creates the resource number `index` and returns its id; undefined for a list that what others create fills. */
  readonly create?: (index: number) => Promise<string>;
  /** Order of the list: as created, the reverse of it, or one of its own. */
  readonly order: 'newest first' | 'oldest first' | 'its own';
  readonly query?: Readonly<Record<string, string>>;
}

let tenants: Tenants;
let sandboxId = '';
let template = '';

before(async () => {
  tenants = await openTenants();
  sandboxId = await tenants.createSandbox(tenants.keys.whole);
  for (let index = 0; index < COUNT; index += 1) {
    await post(`/v1/sandboxes/${sandboxId}/files/directories`, { path: `listed/${index}` });
  }
  const recipe = { from: 'python-node', setup: [{ run: 'true' }] };
  const created = await post('/v1/templates', { slug: 'listed', ...recipe });
  template = created.template.id;
  // The sandbox of the build must neither come nor go while sandboxes are listed.
  const build = `/v1/templates/${template}/builds/${created.build.id}?waitMs=60000`;
  await tenants.call(tenants.keys.whole, 'GET', build);
});
after(() => tenants.close());

// biome-ignore lint/suspicious/noExplicitAny: the answers of many operations
async function post(path: string, body: unknown): Promise<any> {
  const { status, body: created } = await tenants.call(tenants.keys.whole, 'POST', path, {
    body,
    idempotencyKey: randomUUID(),
  });
  assert.ok(status === 200 || status === 201, `${path}: ${JSON.stringify(created)}`);
  return created;
}

const inSandbox = (path: string) => `/v1/sandboxes/${sandboxId}${path}`;
const secret = (index: number) => ({ name: `s${index}`, value: 'x', hosts: ['api.test'] });

const CASES: Readonly<Record<string, ListCase>> = {
  listSandboxes: {
    create: async () => (await post('/v1/sandboxes', {})).sandbox.id,
    order: 'newest first',
    query: { include: 'historical' },
  },
  listProjects: {
    create: async (index) => (await post('/v1/projects', { name: `p${index}` })).project.id,
    order: 'newest first',
  },
  listApiKeys: {
    create: async () => (await post('/v1/api-keys', { name: 'k', scopes: ['sandbox:read'] })).apiKey.id,
    order: 'newest first',
  },
  listSecrets: { create: async (index) => (await post('/v1/secrets', secret(index))).secret.id, order: 'newest first' },
  listWebhooks: {
    create: async () => (await post('/v1/webhooks', { url: 'https://localhost/', events: ['webhook.*'] })).webhook.id,
    order: 'newest first',
  },
  listWorkspaceRuns: {
    create: async () => (await post('/v1/workspace-runs', { command: 'true' })).workspaceRun.id,
    order: 'newest first',
  },
  listContexts: {
    create: async () => (await post(inSandbox('/code/contexts'), { language: 'python' })).context.id,
    order: 'oldest first',
  },
  listCommands: {
    create: async () => (await post(inSandbox('/commands'), { command: ['bash', 'print x'] })).command.id,
    order: 'oldest first',
  },
  listArtifacts: {
    create: async (index) => {
      await tenants.call(tenants.keys.whole, 'PUT', inSandbox(`/files/content?path=a${index}`), {
        body: Buffer.from('x'),
      });
      return (await post(inSandbox('/artifacts'), { path: `a${index}` })).artifact.id;
    },
    order: 'newest first',
  },
  listPreviews: {
    create: async (index) => (await post(inSandbox('/previews'), { port: 8000 + index })).preview.id,
    order: 'newest first',
  },
  listSandboxPreviews: {
    create: async (index) => (await post(inSandbox('/previews'), { port: 8100 + index })).preview.id,
    order: 'newest first',
  },
  listTemplateBuilds: {
    create: async (index) =>
      (await post(`/v1/templates/${template}/builds`, { from: 'python-node', setup: [{ run: `echo ${index}` }] })).build
        .id,
    order: 'newest first',
  },
  listTemplates: { order: 'its own' },
  listTemplateVersions: { order: 'its own' },
  listFiles: { order: 'its own', query: { path: 'listed' } },
};

const lists = (Object.values(operations) as Operation[]).filter(
  ({ response }) => 'nextCursor' in ((response.schema as { properties?: object }).properties ?? {}),
);

describe('every list with pages', () => {
  it('every list with pages has a case here, and every list of the contract that says whether there is more has pages', () => {
    assert.deepEqual(lists.map(({ id }) => id).sort(), Object.keys(CASES).sort());
    const others = (Object.values(operations) as Operation[]).filter(({ response }) => {
      const { properties = {} } = response.schema as { properties?: object };
      return 'hasMore' in properties && !('nextCursor' in properties);
    });
    // Those by sequence number, and those of figures.
    assert.deepEqual(others.map(({ id }) => id).sort(), [
      'listAuditEvents',
      'listCommandLogs',
      'listEvents',
      'listQuotas',
      'listSandboxMetrics',
      'listTemplateBuildLogs',
      'listUsage',
      'listWebhookDeliveries',
      'listWorkspaceRunEvents',
    ]);
  });

  for (const { id, path } of lists) {
    it(`${id} is in the order of creation, and its pages have what the whole list has`, async () => {
      const { create, order, query = {} } = CASES[id] as ListCase;
      const made: string[] = [];
      for (let index = 0; create && index < COUNT; index += 1) made.push(await create(index));
      const url = path.replace('{sandboxId}', sandboxId).replace('{template}', template);
      const list = async (more: Record<string, string> = {}) => {
        const { status, body } = await tenants.call(
          tenants.keys.whole,
          'GET',
          `${url}?${new URLSearchParams({ ...query, ...more })}`,
        );
        assert.equal(status, 200, JSON.stringify(body));
        return body as { data: { id?: string; path?: string }[]; hasMore: boolean; nextCursor?: string };
      };
      const idsOf = (entries: { id?: string; path?: string }[]) => entries.map((entry) => entry.id ?? entry.path);
      const whole = await list();
      assert.deepEqual([whole.hasMore, whole.nextCursor], [false, undefined]);
      const inOrder = idsOf(whole.data).filter((one) => made.includes(String(one)));
      if (create) assert.deepEqual(inOrder, order === 'newest first' ? made.toReversed() : made);
      const paged: (string | undefined)[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await list({ limit: '2', ...(cursor === undefined ? {} : { cursor }) });
        paged.push(...idsOf(page.data));
        assert.ok(page.data.length <= 2);
        assert.equal(page.hasMore, paged.length < whole.data.length);
        if (!page.hasMore) break;
        cursor = page.nextCursor;
      }
      assert.deepEqual(paged, idsOf(whole.data));
    });
  }
});
