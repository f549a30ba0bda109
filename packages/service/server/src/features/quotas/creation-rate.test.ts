import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { OrgId } from '@cloche/contract';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { credentialOf, ORG, OTHER_PROJECT } from '../../../testing/seeded-organizations.ts';
import type { TestRequest } from '../../../testing/test-request.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { ProjectChanges } from '../projects/project-changes.ts';
import type { ReportRates } from './quotas.ts';

describe('the fields of a limit of creations', () => {
  interface Fields {
    readonly policy: string | undefined;
    readonly state: string | undefined;
  }

  /** Attempts a creation, and returns the fields of its answer. */
  async function attempt(world: SandboxesWorld, body: object = {}, call: TestRequest = {}): Promise<Fields> {
    const fields: Fields[] = [];
    const reportRates: ReportRates = (reported) =>
      fields.push({ policy: reported['ratelimit-policy'], state: reported.ratelimit });
    await world.create(body, { ...call, reportRates }).catch(() => undefined);
    assert.ok(fields.length <= 1);
    return fields[0] ?? { policy: undefined, state: undefined };
  }

  it('the fields of a limit of creations say for each limit what is left, and when more is', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 3 });
    await new ProjectChanges(world).update(
      UNAUDITED,
      { id: OTHER_PROJECT, orgId: ORG },
      { quotas: { sandboxesPerMinute: 1 } },
    );
    const first = await attempt(world);
    assert.deepEqual(first, {
      policy: '"organization/sandboxes";q=3;w=60',
      state: '"organization/sandboxes";r=2;t=60',
    });
    world.clock.advance(15_000);
    const second = await attempt(world, { projectId: OTHER_PROJECT });
    assert.deepEqual(second, {
      policy: '"organization/sandboxes";q=3;w=60, "prj_other/sandboxes";q=1;w=60',
      state: '"organization/sandboxes";r=1;t=45, "prj_other/sandboxes";r=0;t=60',
    });
    // A refusal takes nothing from the limit that had room.
    const refused = await attempt(world, { projectId: OTHER_PROJECT });
    assert.equal(refused.state, '"organization/sandboxes";r=1;t=45, "prj_other/sandboxes";r=0;t=60');
    world.clock.advance(45_000);
    assert.equal((await attempt(world)).state, '"organization/sandboxes";r=1;t=15');
  });

  it('the fields of a limit of creations count until there is room for one, when a limit was lowered', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 3 });
    for (let count = 0; count < 3; count += 1) {
      await world.create();
      world.clock.advance(10_000);
    }
    await world.limits.setOrganization(ORG, { sandboxesPerMinute: 1 });
    assert.equal((await attempt(world)).state, '"organization/sandboxes";r=0;t=50');
    await assert.rejects(world.create(), { retryAfterSeconds: 50 });
  });

  it('the fields of a limit of creations are on a refusal by another limit, and on no answer that no such limit applies to', async () => {
    await using world = await openSandboxes();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    const none = { policy: undefined, state: undefined };
    assert.deepEqual([await attempt(world), await attempt(world)], [none, none]);
    await world.limits.setOrganization(ORG, { liveSandboxes: 1, sandboxesPerMinute: 9 });
    assert.equal((await attempt(world)).state, '"organization/sandboxes";r=8;t=60');
    const other = { credential: credentialOf('org_2' as OrgId) };
    assert.deepEqual(await attempt(world, {}, other), none);
  });
});
