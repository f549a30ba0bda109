/**
 * Tries every operation on what belongs to another organization, and on what belongs to another project of the same
 * organization. Afterwards, the owner sends the
 * same requests, which succeed.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { type Operation, operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sendTo } from '../../testing/archive-uploads.ts';
import { EMPTY_ARCHIVE, EMPTY_TAR } from '../../testing/archives.ts';
import { type ExecutedStatements, recordStatements } from '../../testing/executed-statements.ts';
import {
  type Case,
  type GeneralCase,
  type Ids,
  type ListingCase,
  type NamingCase,
  type Parts,
  TENANCY_CASES,
} from '../../testing/tenancy-cases.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../testing/web-socket-upgrade.ts';

const table = Object.values(operations) as Operation[];
const casesOf = ({ id }: Operation): readonly Case[] => (TENANCY_CASES as Record<string, readonly Case[]>)[id] ?? [];

let tenants: Tenants;
let statements: ExecutedStatements;
/** Resources that the tests try to reach, all in a project that neither of the other keys may use. */
let ids: Ids;
let ownSandboxes: { bound: string; foreign: string };

before(async () => {
  statements = recordStatements();
  tenants = await openTenants();
  const { keys } = tenants;
  ids = await createEverything(keys.whole);
  ownSandboxes = {
    bound: await tenants.createSandbox(keys.bound, { projectId: tenants.projectId }),
    foreign: await tenants.createSandbox(keys.foreign),
  };
});
after(async () => {
  await tenants.close();
  statements[Symbol.dispose]();
});

async function createEverything(key: string): Promise<Ids> {
  const create = async (path: string, body: unknown) => {
    const { status, body: created } = await tenants.call(key, 'POST', path, { body, idempotencyKey: randomUUID() });
    assert.equal(status, 201, JSON.stringify(created));
    return created;
  };
  const projectId = await tenants.createProject(key, 'out of reach');
  const toNowhere = { url: 'https://localhost/', events: ['*'], projectId };
  const webhookId = (await create('/v1/webhooks', toNowhere)).webhook.id;
  const name = 'sandbox_of_owner';
  const sandboxId = await tenants.createSandbox(key, { projectId, name });
  const sandbox = `/v1/sandboxes/${sandboxId}`;
  for (const path of ['kept', 'moved', 'deleted']) {
    await tenants.call(key, 'PUT', `${sandbox}/files/content?path=${path}`, { body: Buffer.from('x') });
  }
  const running = { command: ['bash', 'hang'], background: true, stdinOpen: true, terminal: { cols: 80, rows: 24 } };
  const deliveries = () => tenants.call(key, 'GET', `/v1/webhooks/${webhookId}/deliveries`);
  await eventually(async () => (await deliveries()).body.data.length > 0, { because: 'an event was tried' });
  return {
    projectId,
    sandboxId,
    name,
    webhookId,
    secretId: (await create('/v1/secrets', { name: 'x', value: 'y', hosts: ['api.test'], projectId })).secret.id,
    deliveryId: (await deliveries()).body.data[0].id,
    contextId: (await create(`${sandbox}/code/contexts`, { language: 'python' })).context.id,
    commandId: (await create(`${sandbox}/commands`, running)).command.id,
    artifactId: (await create(`${sandbox}/artifacts`, { path: 'kept' })).artifact.id,
    previewId: (await create(`${sandbox}/previews`, { port: 8000 })).preview.id,
    workspaceRunId: (await create('/v1/workspace-runs', { command: 'true', projectId })).workspaceRun.id,
    ...(await createTemplate(key)),
    apiKeyId: (await create('/v1/api-keys', { name: 'x', scopes: ['*'], projectIds: [projectId] })).apiKey.id,
  };
}

async function createTemplate(key: string): Promise<Pick<Ids, 'template' | 'buildId'>> {
  const body = { slug: 'out-of-reach', from: 'node' };
  const { status, body: created } = await tenants.call(key, 'POST', '/v1/templates', { body });
  assert.equal(status, 201, JSON.stringify(created));
  const { template, build } = created;
  const ended = await tenants.call(key, 'GET', `/v1/templates/${template.id}/builds/${build.id}?waitMs=10000`);
  assert.equal(ended.body.build.status, 'succeeded', JSON.stringify(ended.body));
  return { template: template.id, buildId: build.id };
}

/** Ids of the same form and length that do not exist. */
function unknown(known: Ids): Ids {
  const entries = Object.entries(known).map(([name, id]) => [
    name,
    id.replace(/(?<=_.{4}).*/, (rest: string) => 'z'.repeat(rest.length)),
  ]);
  return Object.fromEntries(entries) as unknown as Ids;
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Sends the request of a case. Reads JSON whole; reads anything else up to `until`, or not at all. */
function send(key: string, operation: Operation, named: Ids, parts: Parts, until?: string): Promise<Reply> {
  const { body, query = {}, bytes } = parts;
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => named[name as keyof Ids]);
  const url = new URL(path, tenants.server.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const content = bytes ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = {
    authorization: `Bearer ${key}`,
    ...(operation.idempotency === 'none' ? {} : { 'idempotency-key': randomUUID() }),
    ...(content === undefined
      ? {}
      : { 'content-type': bytes === undefined ? 'application/json' : 'application/x-tar' }),
    ...(operation.webSocket === undefined ? {} : WEB_SOCKET_UPGRADE),
  };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method: operation.method, headers, agent: false });
    sent.once('error', reject);
    sent.once('response', async (response) => {
      const { statusCode: status = 0, headers: answered } = response;
      const isJson = answered['content-type']?.startsWith('application/json');
      let text = '';
      response.setEncoding('utf8');
      if (isJson || until !== undefined) {
        for await (const chunk of response) {
          text += chunk;
          if (!isJson && text.includes(until ?? '')) break;
        }
      }
      response.destroy();
      resolve({ status, headers: answered, text });
    });
    sent.end(content);
  });
}

/** Returns an answer without what differs between any two requests: their ids, and the ids that they name. */
function comparable({ status, headers, text }: Reply, named: Ids): unknown {
  const { date: _date, 'x-request-id': requestId, ...rest } = headers;
  const all = [...Object.values(named), String(requestId)];
  return JSON.parse(all.reduce((whole, id) => whole.replaceAll(id, '…'), JSON.stringify({ status, rest, text })));
}

const codeOf = ({ text }: Reply): string | undefined => JSON.parse(text || '{}').error?.code;

/** Requires that an answer reveals nothing but what the request named itself. */
function requireSilent({ text }: Reply, sentParts: unknown, path: string): void {
  const own = JSON.stringify(sentParts) + path;
  for (const [name, id] of Object.entries(ids)) {
    assert.ok(own.includes(id) || path.includes(`{${name}}`) || !text.includes(id), `reveals ${name}: ${text}`);
  }
}

/** Attempts at a comparison, because jobs of the server execute statements too, at any time. */
const COMPARISONS = 10;

/**
 * Requires that two requests make the database do the same, so that neither takes longer than the other. Time itself is
 * not measured, because other load on the machine changes it far more.
 */
async function requireSameStatements(one: () => Promise<unknown>, other: () => Promise<unknown>): Promise<void> {
  const during = async (act: () => Promise<unknown>) => {
    statements.take();
    await act();
    return statements.take();
  };
  for (let attempt = 1; ; attempt += 1) {
    const [first, second] = [await during(one), await during(other)];
    if (attempt === COMPARISONS) return assert.deepEqual(first, second);
    if (isDeepStrictEqual(first, second)) return;
  }
}

async function tryNamed(operation: Operation, { parts, outside }: NamingCase): Promise<void> {
  const { keys } = tenants;
  const missing = unknown(ids);
  const answerOf = async (key: string, named: Ids) => {
    const reply = await send(key, operation, named, parts(named));
    const maySee = outside === 'permitted' && key === keys.bound;
    if (!maySee) requireSilent(reply, parts(named), operation.path);
    return reply;
  };
  const toForeign = await answerOf(keys.foreign, ids);
  const ofUnknown = await answerOf(keys.foreign, missing);
  assert.deepEqual(comparable(toForeign, ids), comparable(ofUnknown, missing));
  await requireSameStatements(
    () => answerOf(keys.foreign, ids),
    () => answerOf(keys.foreign, missing),
  );
  const toBound = await answerOf(keys.bound, ids);
  const unknownToBound = await answerOf(keys.bound, missing);
  if (outside === 'forbidden') {
    assert.deepEqual([toForeign.status, codeOf(toForeign)], [404, 'not_found']);
    assert.deepEqual([toBound.status, codeOf(toBound)], [403, 'forbidden']);
    assert.deepEqual([unknownToBound.status, codeOf(unknownToBound)], [404, 'not_found']);
  } else if (outside === 'permitted') {
    assert.deepEqual([toForeign.status, codeOf(toForeign)], [404, 'not_found']);
    assert.equal(toBound.status, operation.response.status, toBound.text);
  }
  if (outside === 'as_unknown') assert.deepEqual(comparable(toBound, ids), comparable(unknownToBound, missing));

  // In a sandbox of the caller's own, what belongs to another sandbox does not exist.
  if (!/^\/v1\/sandboxes\/\{sandboxId\}/.test(operation.path)) return;
  for (const which of ['bound', 'foreign'] as const) {
    const [mixed, none] = [ids, missing].map((named) => ({ ...named, sandboxId: ownSandboxes[which] })) as [Ids, Ids];
    if (JSON.stringify(parts(mixed)) === JSON.stringify(parts(none)) && !/\{.*\{/.test(operation.path)) continue;
    const inOwn = await send(keys[which], operation, mixed, parts(mixed));
    assert.equal(codeOf(inOwn), 'not_found', inOwn.text);
    assert.deepEqual(comparable(inOwn, mixed), comparable(await send(keys[which], operation, none, parts(none)), none));
  }
}

async function tryList(operation: Operation, { query = {}, boundSees }: ListingCase): Promise<void> {
  for (const which of boundSees ? (['foreign'] as const) : (['foreign', 'bound'] as const)) {
    // The caller's own sandbox is newer than all that it must not see.
    const reply = await send(tenants.keys[which], operation, ids, { query }, ownSandboxes[which]);
    assert.equal(reply.status, 200, reply.text);
    requireSilent(reply, query, operation.path);
  }
}

async function tryGeneral(operation: Operation, { parts, bound }: GeneralCase): Promise<void> {
  const toForeign = await send(tenants.keys.foreign, operation, ids, parts(ids));
  assert.equal(toForeign.status, operation.response.status, toForeign.text);
  requireSilent(toForeign, parts(ids), operation.path);
  const toBound = await send(tenants.keys.bound, operation, ids, parts(ids));
  assert.equal(toBound.status, bound, toBound.text);
  requireSilent(toBound, parts(ids), operation.path);
}

it('every operation of the contract has a case', () => {
  for (const operation of table) assert.ok(casesOf(operation).length > 0, operation.id);
  assert.deepEqual(Object.keys(TENANCY_CASES).sort(), table.map(({ id }) => id).sort());
});

describe('what belongs to another organization is as unknown, and what belongs to another project is refused:', () => {
  for (const operation of table) {
    for (const each of casesOf(operation)) {
      it(`${operation.id} ${each.title}`, () => {
        if (each.kind === 'names') return tryNamed(operation, each);
        return each.kind === 'lists' ? tryList(operation, each) : tryGeneral(operation, each);
      });
    }
  }
});

/** Uploads an archive to the run, to be finalized. */
async function uploadArchive(): Promise<void> {
  const sending = { body: EMPTY_ARCHIVE, idempotencyKey: randomUUID() };
  const path = `/v1/workspace-runs/${ids.workspaceRunId}/archive-transfer`;
  await sendTo((await tenants.call(tenants.keys.whole, 'POST', path, sending)).body.transfer, EMPTY_TAR);
}

async function endWork(): Promise<void> {
  const { call, keys } = tenants;
  const { data } = (await call(keys.whole, 'GET', `/v1/sandboxes?projectId=${ids.projectId}`)).body;
  for (const { id } of data) await call(keys.whole, 'DELETE', `/v1/sandboxes/${id}`);
  const runs = (await call(keys.whole, 'GET', `/v1/workspace-runs?projectId=${ids.projectId}`)).body.data;
  for (const { id } of runs) {
    await call(keys.whole, 'POST', `/v1/workspace-runs/${id}/cancel`);
    await call(keys.whole, 'GET', `/v1/workspace-runs/${id}?waitFor=finished`);
  }
}

describe('the same requests succeed with a key of the project, after all of these attempts:', () => {
  const all = table.flatMap((operation) => casesOf(operation).map((each) => ({ operation, each })));
  const orderOf = ({ each }: { each: Case }) => (each.kind === 'names' ? each.destroys : 0);
  for (const { operation, each } of all.toSorted((one, other) => orderOf(one) - orderOf(other))) {
    it(`${operation.id} ${each.title}`, async () => {
      if (each.kind === 'lists') {
        const shown = ids[each.shows];
        const { text } = await send(tenants.keys.whole, operation, ids, { query: each.query ?? {} }, shown);
        assert.ok(text.includes(shown), text);
        return;
      }
      if (operation.id === 'deleteProject') await endWork();
      if (operation.id === 'finalizeArchive') await uploadArchive();
      const reply = await send(tenants.keys.whole, operation, ids, each.parts(ids));
      // The fake runtime has no terminals: the error names the terminal, so the sandbox was found.
      if (operation.webSocket !== undefined) assert.match(reply.text, /no terminal/);
      else assert.equal(reply.status, operation.response.status, reply.text);
    });
  }
});
