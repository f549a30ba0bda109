import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type ResourceEvent, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';
import { toEvent } from '../../platform/outbox/event-outbox.ts';

async function eventsOf(world: SandboxesWorld, id: SandboxId): Promise<ResourceEvent[]> {
  const rows = await world.db.selectFrom('events').selectAll().where('org_id', '=', ORG).orderBy('seq').execute();
  return rows.map(toEvent).filter(({ data }) => 'sandbox' in data && data.sandbox.id === id);
}

const typesOf = (events: readonly ResourceEvent[]) => events.map(({ type }) => type);

describe('the events of a sandbox', () => {
  it('the events of a sandbox are its creation, its readiness, each new lifetime and its end, each with the sandbox at that time', async () => {
    await using world = await openSandboxes();
    const created = await world.create({ env: { SECRET: 'hidden' }, metadata: { job: '7' } });
    const ready = await world.waitFor(created.id, 'ready');
    const body = { ttlMs: 7_200_000 };
    const { sandbox: extended } = await world.call(operations.setSandboxTtl, {
      params: { sandboxId: created.id },
      body,
    });
    const destroyed = await world.kill(created.id);
    const events = await eventsOf(world, created.id);
    assert.deepEqual(
      events.map(({ type, projectId, data }) => ({ type, projectId, data })),
      [
        { type: 'sandbox.created', projectId: created.projectId, data: { sandbox: created } },
        { type: 'sandbox.ready', projectId: created.projectId, data: { sandbox: ready } },
        { type: 'sandbox.extended', projectId: created.projectId, data: { sandbox: extended } },
        { type: 'sandbox.destroyed', projectId: created.projectId, data: { sandbox: destroyed } },
      ],
    );
    assert.doesNotMatch(JSON.stringify(events), /hidden/);
  });

  it('say that it failed, and why', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    const { id } = await world.create();
    const failed = await world.waitFor(id, 'ready');
    const events = await eventsOf(world, id);
    assert.deepEqual(typesOf(events), ['sandbox.created', 'sandbox.failed']);
    assert.deepEqual(events[1]?.data, { sandbox: failed });
  });

  it('the events of a sandbox are one creation and one end, however often each is asked for', async () => {
    await using world = await openSandboxes();
    const create = () => world.create({}, { idempotency: { recordId: 'idem_1' } });
    const [first, ...others] = await Promise.all([create(), create(), create()]);
    assert.ok(first && others.every(({ id }) => id === first.id));
    await world.waitFor(first.id, 'ready');
    await Promise.all(Array.from({ length: 5 }, () => world.kill(first.id)));
    assert.deepEqual(typesOf(await eventsOf(world, first.id)), [
      'sandbox.created',
      'sandbox.ready',
      'sandbox.destroyed',
    ]);
  });

  it('the events of a sandbox are the same for the listeners of this server, after they are in the database', async () => {
    await using world = await openSandboxes();
    const heard: ResourceEvent[] = [];
    world.outbox.onCommitted((event) => heard.push(event));
    const id = await world.createReady();
    await world.kill(id);
    assert.deepEqual(heard, await eventsOf(world, id));
  });

  it('the events of a sandbox are counted in the metrics', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    await world.waitFor((await world.create()).id, 'ready');
    await world.kill(await world.createReady());
    const text = await world.metrics.metrics();
    assert.match(text, /^cloche_sandboxes_created_total 2$/m);
    assert.match(text, /^cloche_sandboxes_failed_total 1$/m);
    assert.match(text, /^cloche_sandboxes_destroyed_total\{reason="user_killed"\} 1$/m);
  });
});
