import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche, type ResourceEvent } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { lentService } from '../support/lent-service.ts';
import type { LentService } from '../support/service.ts';

let service: LentService;
before(async () => {
  service = await lentService();
});
after(() => service?.close());

describe('a stream of events', () => {
  it('a stream of events has each event once and in order, although the server is killed with -9 meanwhile', async () => {
    const { api } = service;
    const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
    const abort = new AbortController();
    const seen: ResourceEvent[] = [];
    const following = (async () => {
      for await (const event of cloche.events.stream({ signal: abort.signal })) seen.push(event);
    })().catch((error: unknown) => error);
    const typesOf = (id: string) =>
      seen.flatMap(({ type, data }) => ('sandbox' in data && data.sandbox.id === id ? [type] : []));

    const first = await api.readySandbox();
    await eventually(() => typesOf(first.id).includes('sandbox.ready'));
    await service.kill('server');
    await service.restart('server');
    await api.delete(`/v1/sandboxes/${first.id}`);
    const second = await api.readySandbox();
    await api.delete(`/v1/sandboxes/${second.id}`);
    await eventually(() => typesOf(second.id).includes('sandbox.destroyed'));
    abort.abort(new Error('enough'));
    assert.equal((await following) instanceof Error, true);

    const whole = ['sandbox.created', 'sandbox.ready', 'sandbox.destroyed'];
    assert.deepEqual([typesOf(first.id), typesOf(second.id)], [whole, whole]);
    assert.deepEqual(
      seen.map(({ seq }) => seq),
      seen.map((_, index) => index + 1),
    );
    const { data } = (await api.get('/v1/events')).body;
    assert.deepEqual(seen, data);
  });
});
