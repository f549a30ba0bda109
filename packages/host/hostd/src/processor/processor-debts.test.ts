import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProcessorDebts } from './processor-debts.ts';

const LOOK_US = 250_000;
const PROCESSORS = 2;

const never = () => false;

/**
 * Lets each sandbox use its rate of a processor for a number of checks. Returns the sandboxes with low priority at the
 * end.
 */
function play(debts: ProcessorDebts<string>, used: Map<string, number>) {
  const low = new Set<string>();
  return (rates: Record<string, number>, looks: number) => {
    for (let look = 0; look < looks; look += 1) {
      for (const [key, rate] of Object.entries(rates)) used.set(key, (used.get(key) ?? 0) + rate * LOOK_US);
      for (const [key, isLow] of debts.update(used, (one) => (rates[one] ?? 0) > 0)) {
        if (isLow) low.add(key);
        else low.delete(key);
      }
    }
    return [...low].sort();
  };
}

const start = () => play(new ProcessorDebts(), new Map());

describe('while processors are contended', () => {
  it('a sandbox that uses more than its share gets a low priority within a second', () => {
    const after = start();
    assert.deepEqual(after({ hog: 1, other: 1, quiet: 0.02 }, 4), ['hog', 'other']);
  });

  it('fifty sandboxes that share the processors evenly get a lower priority than a new one', () => {
    const after = start();
    const hogs = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`hog-${index}`, PROCESSORS / 50]));
    assert.equal(after(hogs, 60).length, 50);
    assert.ok(!after({ ...hogs, fresh: 0.05 }, 4).includes('fresh'));
  });

  it('a sandbox loses its low priority after a second without work', () => {
    const after = start();
    assert.deepEqual(after({ hog: 1, other: 1, busy: 1 }, 8), ['busy', 'hog', 'other']);
    assert.deepEqual(after({ hog: 1, other: 1, busy: 0 }, 3), ['busy', 'hog', 'other']);
    assert.deepEqual(after({ hog: 1, other: 1, busy: 0 }, 1), ['hog', 'other']);
  });

  it('a sandbox that lost its low priority gets it again when it uses more than its share again', () => {
    const after = start();
    const all = { hog: 1, other: 1, busy: 1 };
    assert.deepEqual(after(all, 8), ['busy', 'hog', 'other']);
    assert.deepEqual(after({ ...all, busy: 0 }, 4), ['hog', 'other']);
    assert.deepEqual(after(all, 8), ['busy', 'hog', 'other']);
  });

  it('a sandbox that alone wants a processor keeps its priority, or gets it back', () => {
    const after = start();
    assert.deepEqual(after({ hog: 1, quiet: 0 }, 20), []);
    assert.deepEqual(after({ hog: 1, other: 1 }, 8), ['hog', 'other']);
    assert.deepEqual(after({ hog: 1, other: 0 }, 4), []);
    assert.deepEqual(after({ hog: 1, other: 0.1 }, 8), ['hog']);
  });

  it('a sandbox that uses little because of its low priority keeps it', () => {
    const debts = new ProcessorDebts<string>();
    const used = new Map([
      ['hog', 0],
      ['other', 0],
    ]);
    debts.update(used, never);
    for (const key of used.keys()) used.set(key, 1e6);
    assert.equal(debts.update(used, never).size, 2);
    for (let look = 0; look < 20; look += 1) {
      used.set('other', (used.get('other') ?? 0) + LOOK_US);
      assert.equal(debts.update(used, () => true).size, 0);
    }
  });

  it('a sandbox that has just been launched may use more at first, but not later', () => {
    const hogs = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`hog-${index}`, 0.2]));
    const looksUntilBehind = (idleLooks: number) => {
      const after = start();
      after({ launched: 0 }, 1 + idleLooks);
      for (let looks = 1; looks < 100; looks += 1)
        if (after({ launched: 0.2, ...hogs }, 1).includes('launched')) return looks;
      return assert.fail('never');
    };
    assert.ok(looksUntilBehind(0) > looksUntilBehind(10));
  });

  it('processor time before the first check does not count', () => {
    const debts = new ProcessorDebts<string>();
    const used = new Map([
      ['old', 1e9],
      ['older', 2e9],
    ]);
    debts.update(new Map(), never);
    assert.equal(debts.update(used, never).size, 0);
    assert.equal(debts.update(used, never).size, 0);
  });

  it('processor time before the contention does not count', () => {
    const debts = new ProcessorDebts<string>();
    const used = new Map([
      ['busy', 0],
      ['other', 0],
    ]);
    debts.update(used, never);
    for (const key of used.keys()) used.set(key, 1e9);
    debts.begin(used);
    assert.equal(debts.update(used, never).size, 0);
  });

  it('a removed sandbox is forgotten, also when its name is used again', () => {
    const debts = new ProcessorDebts<string>();
    const after = play(debts, new Map());
    assert.deepEqual(after({ hog: 1, other: 1 }, 8), ['hog', 'other']);
    debts.update(new Map([['other', 5e6]]), never);
    const used = new Map([
      ['hog', 5],
      ['other', 6e6],
    ]);
    assert.equal(debts.update(used, never).has('hog'), false);
  });
});
