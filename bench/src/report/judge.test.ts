import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import { describeAims, isMet, timesAsGood } from './judge.ts';

const row = (changes: Partial<Row>): Row => ({ what: 'x', unit: 'ms', subject: figuresOf([10]), ...changes });
const peer = (value: number) => ({ name: 'peer', figures: figuresOf([value]) });

describe('a row', () => {
  it('a row is as many times as good as its peer, whichever way is better', () => {
    assert.equal(timesAsGood(row({ peer: peer(200) })), 20);
    assert.equal(timesAsGood(row({ unit: '/s', peer: peer(5) })), 2);
    assert.equal(timesAsGood(row({})), undefined);
  });

  it('a row is met when each of its aims is', () => {
    assert.equal(isMet(row({})), undefined);
    assert.equal(isMet(row({ targets: [{ atMost: 10 }, { of: 'p99', atMost: 9 }] })), false);
    assert.equal(isMet(row({ targets: [{ atMost: 10 }], peer: peer(200), ratioAtLeast: 21 })), false);
    assert.equal(isMet(row({ targets: [{ atMost: 10 }], peer: peer(200), ratioAtLeast: 20 })), true);
    assert.equal(isMet(row({ peer: peer(5), ratioAtMost: 1.9 })), false);
    assert.equal(isMet(row({ peer: peer(5), ratioAtMost: 2 })), true);
    assert.equal(isMet(row({ unit: '/s', targets: [{ atLeast: 11 }] })), false);
  });

  it('a row says what is to be reached', () => {
    assert.equal(
      describeAims(row({ targets: [{ of: 'p99', atMost: 2.5 }], ratioAtMost: 4 })),
      "p99 ≤ 2.50 ms, at most 4 times its peer's",
    );
  });
});
