import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EventBudget, SharedBudget } from './event-budget.ts';

/** Spends `count` events of `bytes` without extra pauses, and returns the total rest in milliseconds. */
function send(budget: EventBudget, clock: { now: number }, count: number, bytes: number): number {
  let restedMs = 0;
  for (let event = 0; event < count; event += 1) {
    const restMs = budget.spend(bytes);
    clock.now += restMs;
    restedMs += restMs;
  }
  return restedMs;
}

describe('the budget of events', () => {
  const open = () => {
    const clock = { now: 0 };
    const shared = new SharedBudget(() => clock.now);
    return { clock, shared, budget: new EventBudget(shared) };
  };

  it('the budget of events lets through at once what an honest run sends', () => {
    const { clock, budget } = open();
    // The maximum output of a run in the agent's chunk size, followed by hundreds of small events.
    assert.equal(send(budget, clock, 128, 64 * 1024), 0);
    assert.equal(send(budget, clock, 200, 100), 0);
  });

  it('the budget of events slows a flood of events down, however small they are', () => {
    const { clock, budget } = open();
    const restedMs = send(budget, clock, 100_000, 60);
    assert.ok(restedMs > 9000 && restedMs < 11_000, `${restedMs} ms`);
  });

  it('the budget of events slows large events down as it does many', () => {
    const { clock, budget } = open();
    assert.ok(send(budget, clock, 100, 60 << 20) > 10_000);
  });

  it('the budget of events is shared by all that send much, and no other waits for them', () => {
    const { clock, shared } = open();
    const floods = Array.from({ length: 10 }, () => new EventBudget(shared));
    const rests = floods.map((budget) => Array.from({ length: 1000 }, () => budget.spend(60)).at(-1) ?? 0);
    // Each had a burst of its own. Their total rest covers all events beyond that.
    assert.ok(Math.max(...rests) > 300, `${rests}`);
    const honest = new EventBudget(shared);
    assert.equal(send(honest, clock, 400, 60), 0);
  });

  it('the budget of events is full again after a while, and never fuller than at first', () => {
    const { clock, budget } = open();
    send(budget, clock, 10_000, 60);
    clock.now += 3_600_000;
    assert.equal(send(budget, clock, 900, 60), 0);
    assert.ok(send(budget, clock, 2000, 60) > 0);
  });
});
