import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { ResourceEvent } from '@cloche/contract';
import { openTenants, type Tenants } from '../../../testing/tenants.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants();
});
after(() => tenants.close());

const get = (query = '', key = tenants.keys.whole) => tenants.call(key, 'GET', `/v1/events${query}`);

async function lastSeq(): Promise<number> {
  return (await get(`?afterSeq=${Number.MAX_SAFE_INTEGER}`)).body.nextSeq;
}

async function eventsAfter(seq: number, query = '', key = tenants.keys.whole): Promise<ResourceEvent[]> {
  const { status, body } = await get(`?afterSeq=${seq}${query}`, key);
  assert.equal(status, 200, JSON.stringify(body));
  return body.data;
}

interface Frame {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: ResourceEvent;
}

/** Returns the complete frames of a text. */
function framesOf(text: string): Frame[] {
  const complete = text.split('\n\n').slice(0, -1);
  return complete
    .filter((frame) => !frame.startsWith(':'))
    .map((frame) => {
      const fields = Object.fromEntries(frame.split('\n').map((line) => line.split(/: (.*)/s)));
      return { id: fields.id, event: fields.event, data: JSON.parse(fields.data) };
    });
}

/** Opens the stream, and reads `count` frames of it while `act` is done. */
async function frames(
  query: string,
  count: number,
  act: () => Promise<unknown> = async () => undefined,
  headers: Record<string, string> = {},
): Promise<Frame[]> {
  const abort = new AbortController();
  const response = await fetch(`${tenants.server.url}/v1/events/stream${query}`, {
    headers: { authorization: `Bearer ${tenants.keys.whole}`, ...headers },
    signal: abort.signal,
  });
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const acting = act();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (framesOf(text).length >= count) break;
  }
  abort.abort();
  await acting;
  return framesOf(text);
}

async function createAndKill(): Promise<string> {
  const id = await tenants.createSandbox(tenants.keys.whole);
  await tenants.call(tenants.keys.whole, 'DELETE', `/v1/sandboxes/${id}`);
  return id;
}

describe('the events of an organization', () => {
  it('the events of an organization have the resources as their operations return them', async () => {
    const { call, keys } = tenants;
    const from = await lastSeq();
    const id = await tenants.createSandbox(keys.whole);
    const created = async (path: string, body: unknown) =>
      (await call(keys.whole, 'POST', `/v1/sandboxes/${id}/${path}`, { body, idempotencyKey: randomUUID() })).body;
    await call(keys.whole, 'PUT', `/v1/sandboxes/${id}/files/content?path=kept`, { body: Buffer.from('x') });
    const { artifact } = await created('artifacts', { path: 'kept' });
    const opened = (await created('previews', { port: 8000 })).preview;
    const { preview } = (await call(keys.whole, 'GET', `/v1/previews/${opened.id}`)).body;
    const previewEnd = (await call(keys.whole, 'DELETE', `/v1/previews/${opened.id}`)).body;
    const artifactEnd = (await call(keys.whole, 'DELETE', `/v1/artifacts/${artifact.id}`)).body;
    await call(keys.whole, 'DELETE', `/v1/artifacts/${artifact.id}`);
    const sandboxEnd = (await call(keys.whole, 'DELETE', `/v1/sandboxes/${id}`)).body;
    const events = await eventsAfter(from);
    assert.deepEqual(
      events.slice(2).map(({ type, data }) => [type, data]),
      [
        ['artifact.created', { artifact }],
        ['preview.created', { preview }],
        ['preview.deleted', previewEnd],
        ['artifact.deleted', artifactEnd],
        ['sandbox.destroyed', sandboxEnd],
      ],
    );
    assert.ok(opened.accessToken);
    assert.doesNotMatch(JSON.stringify(events), new RegExp(opened.accessToken));
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, index) => from + 1 + index),
    );
  });

  it('the events of an organization are filtered by types, by groups of types and by project', async () => {
    const from = await lastSeq();
    const { keys, projectId } = tenants;
    await createAndKill();
    await tenants.createSandbox(keys.bound, { projectId });
    const types = async (query: string) => (await eventsAfter(from, query)).map(({ type }) => type);
    const all = ['sandbox.created', 'sandbox.ready', 'sandbox.destroyed', 'sandbox.created', 'sandbox.ready'];
    assert.deepEqual(await types('&types=sandbox.*,preview.created'), all);
    assert.deepEqual(await types('&types=artifact.*'), []);
    assert.deepEqual(await types('&types=sandbox.destroyed'), ['sandbox.destroyed']);
    assert.deepEqual(await types(`&projectId=${projectId}`), ['sandbox.created', 'sandbox.ready']);
  });

  it('the events of an organization are seen by a key that is bound to projects only of these, and never by another organization', async () => {
    const from = await lastSeq();
    const { keys, projectId } = tenants;
    await createAndKill();
    await tenants.createSandbox(keys.bound, { projectId });
    const seen = await eventsAfter(from, '', keys.bound);
    assert.equal(seen.length, 2);
    for (const event of seen) assert.equal(event.projectId, projectId);
    assert.equal((await get(`?projectId=${tenants.defaultProjectId}`, keys.bound)).status, 403);
    const foreign: ResourceEvent[] = (await get('', keys.foreign)).body.data;
    // Its own key, which the operator created.
    assert.deepEqual(
      foreign.map(({ type }) => type),
      ['api_key.created'],
    );
    assert.notEqual(foreign[0]?.orgId, seen[0]?.orgId);
  });

  it('the events of an organization are refused for a type that does not exist, and for a page that is too large', async () => {
    for (const query of ['types=sandbox', 'types=sandbox.gone', 'types=nothing.*', 'types=sandbox.*,', 'limit=501']) {
      const { status, body } = await get(`?${query}`);
      assert.deepEqual([status, body.error.code], [400, 'invalid_request'], query);
      assert.match(body.error.message, new RegExp(`query\\.${query.split('=')[0]}`));
    }
  });
});

describe('the stream of events', () => {
  it('the stream of events has the events as the list has them, each with its number as the id and its type as the name', async () => {
    const from = await lastSeq();
    const read = await frames(`?afterSeq=${from}`, 3, createAndKill);
    assert.deepEqual(
      read.map(({ data }) => data),
      await eventsAfter(from),
    );
    for (const { id, event, data } of read) assert.deepEqual([id, event], [String(data.seq), data.type]);
  });

  it('the stream of events resumes after the event that Last-Event-ID names, which takes precedence over afterSeq', async () => {
    const from = await lastSeq();
    await createAndKill();
    const [first] = await frames(`?afterSeq=${from}`, 1);
    const rest = await frames('?afterSeq=0', 2, undefined, { 'last-event-id': first?.id ?? '' });
    assert.deepEqual(
      rest.map(({ data }) => data.seq),
      [from + 2, from + 3],
    );
  });

  it('the stream of events has what matches its filter, right after it happened', async () => {
    const from = await lastSeq();
    const read = await frames(`?afterSeq=${from}&types=sandbox.destroyed`, 2, async () => {
      await createAndKill();
      await createAndKill();
    });
    assert.deepEqual(
      read.map(({ event }) => event),
      ['sandbox.destroyed', 'sandbox.destroyed'],
    );
  });

  it('the stream of events refuses an invalid event id', async () => {
    const { status, body } = await tenants.call(tenants.keys.whole, 'GET', '/v1/events/stream', {
      headers: { 'last-event-id': 'evt_1' },
    });
    assert.deepEqual([status, body.error.code], [400, 'invalid_request']);
  });
});
