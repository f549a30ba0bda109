/** Steps of pauses and wakes at which a process of the service stands still, so that a test can kill it there. */
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@cloche/testkit/eventually';

/** Variable with the folder in which a test names the steps. */
const FOLDER = 'HELD_STEPS';
const LONGEST_MS = 120_000;

/** The step that has just happened, as the design of pauses names it, and the process that stands still. */
export const PAUSE_STEPS = {
  P1: 'the record says that it is about to be paused',
  P2: 'the gate is closed',
  P3: 'hostd has frozen the instance',
  P4: 'the record says that it is paused',
} as const;
export const WAKE_STEPS = {
  W1: 'the record says that it is about to wake',
  W2: 'hostd has thawed the instance',
  W3: 'the gate is open',
  W5: 'the record says that it is awake',
} as const;
export type HeldStep = keyof typeof PAUSE_STEPS | keyof typeof WAKE_STEPS;

/** Lets a test hold the processes of `held-server.ts` and `held-hostd.ts`. */
export class HeldSteps implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'cloche-steps-'));

  constructor() {
    // The server's user writes here too.
    chmodSync(this.#folder, 0o777);
  }

  get env(): Record<string, string> {
    return { [FOLDER]: this.#folder };
  }

  /** The next process that takes the step for the sandbox stands still after it. */
  hold(sandboxId: string, step: HeldStep): void {
    writeFileSync(fileOf(this.#folder, sandboxId, step), '');
  }

  async reached(sandboxId: string, step: HeldStep): Promise<void> {
    await eventually(() => existsSync(`${fileOf(this.#folder, sandboxId, step)}.reached`));
  }

  /** Lets the processes that stand still go on, and holds none. */
  release(): void {
    for (const file of readdirSync(this.#folder)) rmSync(join(this.#folder, file));
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Makes a method stand still after its work where a test says so. For the programs of the processes. */
export function holdAfter<Method extends string, Args extends never[]>(
  prototype: Record<Method, (...args: Args) => Promise<unknown>>,
  method: Method,
  stepOf: (...args: Args) => { readonly sandboxId: string; readonly step: HeldStep | undefined },
): void {
  const original = prototype[method];
  prototype[method] = async function (this: unknown, ...args: Args) {
    const result = await original.apply(this, args);
    const { sandboxId, step } = stepOf(...args);
    const file = fileOf(process.env[FOLDER] ?? '', sandboxId, step ?? 'P1');
    if (step === undefined || !existsSync(file)) return result;
    writeFileSync(`${file}.reached`, '');
    await eventually(() => !existsSync(file), { within: LONGEST_MS });
    return result;
  };
}

function fileOf(folder: string, sandboxId: string, step: HeldStep): string {
  return join(folder, `${sandboxId}.${step}`);
}
