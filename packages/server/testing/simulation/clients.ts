/** The clients of a simulation: they create sandboxes, run code and end sandboxes, and repeat what has no final answer. */
import { operations } from '@cloche/contract';
import type { Invariants } from './invariants.ts';
import type { Answer, Call, SimulatedServer } from './simulated-server.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Time after which a client gives an attempt up. */
const PATIENCE_MS = 25_000;
/** Errors after which a client repeats its request. */
const PASSING: ReadonlySet<string> = new Set([
  'unavailable',
  'idempotency_request_in_progress',
  'rate_limited',
  'no answer',
]);
/** When clients that begin together do so. */
const TOGETHER_MS = 2_000;
const RUN_MS = 40_000;
const NO_ANSWER: Answer = { status: 0, body: '', code: 'no answer' };

export interface ClientsWorld {
  readonly time: VirtualTime;
  readonly invariants: Invariants;
  /** The servers that a load balancer would send requests to. */
  readonly servers: () => readonly SimulatedServer[];
}

/** The state that the clients share. */
export class Clients {
  readonly #world: ClientsWorld;
  #keys = 0;
  #working = 0;

  constructor(world: ClientsWorld) {
    this.#world = world;
  }

  get areDone(): boolean {
    return this.#working === 0;
  }

  /** Starts a client that uses `sandboxes` sandboxes, one after the other. */
  start(sandboxes: number): void {
    this.#working += 1;
    const work = async () => {
      for (let index = 0; index < sandboxes; index += 1) await this.#useSandbox();
      this.#working -= 1;
    };
    work().catch((error: Error) => this.#world.invariants.violate(`a client failed: ${error.stack}`));
  }

  async #useSandbox(): Promise<void> {
    const { time } = this.#world;
    const { random } = time;
    // Often all of them at once, in the first seconds.
    const beginsMs = random.chance(0.5) ? TOGETHER_MS - time.elapsed() + random.next() * 5 : random.next() * 3_000;
    await time.pause(beginsMs, 'a client begins');
    const body = {
      ttlMs: random.pick([12_000, 60_000, 120_000]),
      ...(random.chance(0.35) ? { idleTimeoutMs: random.pick([1_000, 3_000]) } : {}),
    };
    const created = await this.#insist({ operation: operations.createSandbox, body, key: this.#nextKey() });
    if (created.status !== 201) return;
    const sandboxId: string = JSON.parse(created.body).sandbox.id;
    const params = { sandboxId };
    if (random.chance(0.5)) {
      const query = { waitFor: 'ready', waitMs: 20_000 };
      await this.#insist({ operation: operations.getSandbox, params, query });
    }
    const runs = random.below(3);
    for (let index = 0; index < runs; index += 1) {
      const code = `sleep ${random.pick([0, 50, 1_500, 14_000])}\nprint done`;
      const run = { operation: operations.runCode, params, body: { code, language: 'python', timeoutMs: RUN_MS } };
      const answer = await this.#insist({ ...run, key: this.#nextKey() });
      if (answer.status !== 200) return;
      if (random.chance(0.3)) await time.pause(random.next() * 4_000, 'a client thinks');
    }
    if (random.chance(0.5)) await this.#insist({ operation: operations.killSandbox, params, key: this.#nextKey() });
  }

  #nextKey(): string {
    this.#keys += 1;
    return `key_${this.#keys}`;
  }

  /** Sends a request until it has a final answer; sometimes the same request several times at once. */
  async #insist(call: Call): Promise<Answer> {
    const { time, invariants } = this.#world;
    const twin = call.key !== undefined && time.random.chance(0.3) ? this.#repeat(call) : undefined;
    const answer = await this.#repeat(call);
    await twin;
    if (answer.status >= 500 && answer.code !== 'unavailable') invariants.violate(`${call.key}: ${answer.body}`);
    return answer;
  }

  async #repeat(call: Call): Promise<Answer> {
    const { time, invariants } = this.#world;
    for (;;) {
      const answer = await this.#attempt(call);
      if (call.key !== undefined) invariants.answered(call.key, answer.status, answer.body);
      time.note(`client: ${call.operation.id} ${call.key ?? ''} ${answer.status} ${answer.code ?? ''} ${answer.body}`);
      if (answer.code === undefined || !PASSING.has(answer.code)) return answer;
      await time.pause(300 + time.random.next() * 2_000, 'a client repeats');
    }
  }

  async #attempt(call: Call): Promise<Answer> {
    const { time, servers } = this.#world;
    await time.pause(0.5 + time.random.next() * 5, 'request arrives');
    const [first, ...others] = servers();
    if (!first) return NO_ANSWER;
    const server = time.random.pick([first, ...others]);
    return new Promise((resolve, reject) => {
      const patience = time.after(PATIENCE_MS, 'a client gives up', () => resolve(NO_ANSWER));
      const settle = (answer: Answer) => {
        patience.isCanceled = true;
        time.afterFor(undefined, 0.5, 'answer arrives', () => resolve(answer));
      };
      server.onEnd.add(() => settle(NO_ANSWER));
      time.as(server, () => void server.call(call).then(settle, reject));
    });
  }
}
