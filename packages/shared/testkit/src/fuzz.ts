import { Random } from './random.ts';

export { speakHostilely } from './hostile-speaker.ts';
export { mutateBytes, mutateJson, randomBytes } from './mutations.ts';
export { Random } from './random.ts';
export { UncaughtErrors as UnheardFaults } from './uncaught-errors.ts';

/**
 * Calls `attempt` repeatedly, each time with another seed. A failure names its seed; with `CLOCHE_FUZZ_SEED` set to
 * that number, only this attempt is repeated.
 */
export async function fuzz(attempts: number, attempt: (random: Random) => unknown): Promise<void> {
  const given = process.env.CLOCHE_FUZZ_SEED;
  const first = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
  for (let seed = first; seed < first + (given === undefined ? attempts : 1); seed += 1) {
    try {
      await attempt(new Random(seed));
    } catch (cause) {
      const what = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`CLOCHE_FUZZ_SEED=${seed} does it again: ${what}`, { cause });
    }
  }
}
