import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RunClaims } from './run-claims.ts';

class WatchedRun {
  isAbandoned = false;

  abandon(): void {
    this.isAbandoned = true;
  }
}
const aRun = () => new WatchedRun();

describe('the claims of an agent', () => {
  it('end the run of a lower claim, and refuse a lower claim from then on', () => {
    const claims = new RunClaims();
    const [first, second] = [aRun(), aRun()];
    claims.enter({ recordId: 'idem_1', claim: 1 }, first);
    claims.require({ recordId: 'idem_1', claim: 1 });
    claims.enter({ recordId: 'idem_1', claim: 2 }, second);
    assert.deepEqual([first.isAbandoned, second.isAbandoned], [true, false]);
    // A run that was waiting for its context when the later claim came.
    assert.throws(() => claims.require({ recordId: 'idem_1', claim: 1 }), { code: 'conflict' });
    assert.throws(() => claims.enter({ recordId: 'idem_1', claim: 1 }, aRun()), { code: 'conflict' });
    assert.equal(second.isAbandoned, false);
  });

  it('let the same claim start again, other records and runs without a record alone', () => {
    const claims = new RunClaims();
    const run = aRun();
    claims.enter({ recordId: 'idem_1', claim: 2 }, run);
    claims.enter({ recordId: 'idem_1', claim: 2 }, run);
    claims.enter({ recordId: 'idem_2', claim: 1 }, aRun());
    claims.enter(undefined, aRun());
    assert.equal(run.isAbandoned, false);
  });

  it('are remembered for the last thousand records', () => {
    const claims = new RunClaims();
    for (let record = 0; record <= 1000; record += 1) claims.enter({ recordId: `idem_${record}`, claim: 2 }, aRun());
    claims.require({ recordId: 'idem_0', claim: 1 });
    assert.throws(() => claims.require({ recordId: 'idem_1', claim: 1 }), { code: 'conflict' });
  });
});
