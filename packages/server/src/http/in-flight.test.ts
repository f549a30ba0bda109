import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { InFlight } from './in-flight.ts';

const LIMITS = { perOrganization: 2, total: 3 };

describe('requests under way', () => {
  it('of one organization are bounded, whatever they are, and others go on', () => {
    const inFlight = new InFlight(LIMITS);
    const first = inFlight.enter('org_1', true);
    inFlight.enter('org_1', false);
    assert.throws(() => inFlight.enter('org_1', true), { code: 'rate_limited' });
    inFlight.enter('org_2', true);
    assert.throws(() => inFlight.enter('org_3', true), { code: 'unavailable' });
    inFlight.leave('org_1', first);
    inFlight.enter('org_3', true);
    assert.throws(() => inFlight.enter('org_1', true), { code: 'unavailable' });
    assert.equal(inFlight.size, 3);
  });
});
