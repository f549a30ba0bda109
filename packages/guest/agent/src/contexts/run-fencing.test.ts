import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RunFencing } from './run-fencing.ts';

class WatchedRun {
  readonly operation;
  isAbandoned = false;

  constructor(recordId?: string, claim = 1) {
    this.operation = recordId === undefined ? undefined : { recordId, claim };
  }

  abandon(): void {
    this.isAbandoned = true;
  }
}

describe('the claims of an agent', () => {
  it('the claims of an agent end the run of a lower claim, and refuse a lower claim from then on', () => {
    const claims = new RunFencing();
    const [first, second] = [new WatchedRun('idem_1', 1), new WatchedRun('idem_1', 2)];
    claims.enter(first);
    claims.require(first.operation);
    claims.enter(second);
    assert.deepEqual([first.isAbandoned, second.isAbandoned], [true, false]);
    // A run that was waiting for its context when the later claim came.
    assert.throws(() => claims.require(first.operation), { code: 'conflict' });
    claims.leave(first);
    assert.throws(() => claims.enter(new WatchedRun('idem_1', 1)), { code: 'conflict' });
    assert.equal(second.isAbandoned, false);
  });

  it('the claims of an agent let the same claim start again, other records and runs without a record alone', () => {
    const claims = new RunFencing();
    const run = new WatchedRun('idem_1', 2);
    claims.enter(run);
    claims.enter(run);
    claims.enter(new WatchedRun('idem_2'));
    claims.enter(new WatchedRun());
    assert.equal(run.isAbandoned, false);
  });

  it('the claims of an agent are remembered for the last thousand records', () => {
    const claims = new RunFencing();
    for (let record = 0; record <= 1000; record += 1) claims.enter(new WatchedRun(`idem_${record}`, 2));
    claims.require({ recordId: 'idem_0', claim: 1 });
    assert.throws(() => claims.require({ recordId: 'idem_1', claim: 1 }), { code: 'conflict' });
  });

  it('the claims of an agent are not remembered after the run of a first claim, which no lower one can follow', () => {
    const claims = new RunFencing();
    const retried = new WatchedRun('idem_retried', 2);
    claims.enter(retried);
    claims.leave(retried);
    for (let record = 0; record < 2000; record += 1) {
      const run = new WatchedRun(`idem_${record}`);
      claims.enter(run);
      claims.leave(run);
    }
    assert.throws(() => claims.require({ recordId: 'idem_retried', claim: 1 }), { code: 'conflict' });
  });

  it('the claims of an agent stay those of a run whose twin has ended', () => {
    const claims = new RunFencing();
    const [twin, run] = [new WatchedRun('idem_1'), new WatchedRun('idem_1')];
    claims.enter(twin);
    claims.enter(run);
    claims.leave(twin);
    claims.enter(new WatchedRun('idem_1', 2));
    assert.equal(run.isAbandoned, true);
  });
});
