import type { Clock } from '@cloche/server/clock';

/** Stands still until it is moved. */
export class FakeClock implements Clock {
  #now: number;

  constructor(now: number = Date.parse('2026-01-01T00:00:00.000Z')) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}
