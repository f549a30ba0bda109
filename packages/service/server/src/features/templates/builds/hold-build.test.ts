import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TemplateBuildId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { FakeClock } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { SILENT } from '../../../../testing/silent.ts';
import { Changes } from '../../../platform/base/changes.ts';
import { holdBuild } from './hold-build.ts';

const ID = 'tbld_1' as TemplateBuildId;
const CLAIM = 'srv_1:1';

describe('the claim to a build', () => {
  it('the claim to a build ends the work before it ends itself, while the database does not answer', async () => {
    using deadline = new Deadline(60_000);
    const ended = new AbortController();
    const answer = Promise.withResolvers<boolean>();
    let sent = 0;
    const renew = () => {
      sent += 1;
      return answer.promise;
    };
    const claims = { claimMs: 3_000, renew };
    const builds = { findById: async () => undefined };
    const deps = { claims, builds, changes: new Changes<TemplateBuildId>(), clock: new FakeClock(), log: SILENT };
    const claimedAt = performance.now();
    const holding = holdBuild(deps, { id: ID, claim: CLAIM, claimedAt }, deadline, ended.signal);
    await eventually(() => deadline.signal.aborted, { because: 'the work is ended' });
    const heldMs = performance.now() - claimedAt;
    assert.ok(heldMs >= 2_000 && heldMs < claims.claimMs, String(heldMs));
    assert.deepEqual([deadline.endedBy, sent], ['canceled', 1]);
    ended.abort();
    answer.resolve(false);
    await holding;
  });
});
