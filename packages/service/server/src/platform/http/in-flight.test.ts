import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { InFlight } from './in-flight.ts';

const LIMITS = { perOrganization: 2, total: 3 };

describe('requests under way', () => {
  it('the requests under way of one organization are bounded, whatever they are, and others go on', () => {
    const inFlight = new InFlight(LIMITS);
    const enter = (orgId: 'org_1' | 'org_2' | 'org_3', isInterruptible = true) =>
      inFlight.enter({ orgId, apiKeyId: 'key_1' }, isInterruptible);
    const first = enter('org_1');
    enter('org_1', false);
    assert.throws(() => enter('org_1'), { code: 'rate_limited' });
    enter('org_2');
    assert.throws(() => enter('org_3'), { code: 'unavailable' });
    inFlight.leave({ orgId: 'org_1' }, first);
    enter('org_3');
    assert.throws(() => enter('org_1'), { code: 'unavailable' });
    assert.equal(inFlight.size, 3);
  });
});
