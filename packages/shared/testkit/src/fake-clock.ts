/** A clock that stands still until a test moves it. */
export class FakeClock {
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
