/** Knows which requests of one kind overlap in time, by the name of what they are about. */
export class Overlaps {
  readonly #underWay = new Map<string, number>();

  /** Runs `act`, which is told whether another request for the name was under way when this one arrived. */
  async during<Answer>(name: string, act: (isOverlapping: boolean) => Promise<Answer>): Promise<Answer> {
    const others = this.#underWay.get(name) ?? 0;
    this.#underWay.set(name, others + 1);
    try {
      return await act(others > 0);
    } finally {
      const left = (this.#underWay.get(name) ?? 1) - 1;
      if (left === 0) this.#underWay.delete(name);
      else this.#underWay.set(name, left);
    }
  }
}
