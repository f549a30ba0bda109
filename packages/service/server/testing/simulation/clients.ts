/** The clients of a simulation, which repeat every request that has no final answer. */
import { type CreateSandboxBody, operations } from '@cloche/contract';
import type { Random } from '@cloche/testkit/random';
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

  /** Starts a client, which does `work`. */
  start(work: (clients: this) => Promise<void>): void {
    this.#working += 1;
    work(this).then(
      () => {
        this.#working -= 1;
      },
      (error: Error) => this.#world.invariants.violate(`a client failed: ${error.stack}`),
    );
  }

  get random(): Random {
    return this.#world.time.random;
  }

  /** Pauses until a client begins: often all of them at once, in the first seconds. */
  async begin(): Promise<void> {
    const { time } = this.#world;
    const { random } = time;
    const beginsMs = random.chance(0.5) ? TOGETHER_MS - time.elapsed() + random.next() * 5 : random.next() * 3_000;
    await time.pause(beginsMs, 'a client begins');
  }

  /** Pauses between two requests. */
  async think(): Promise<void> {
    const { time } = this.#world;
    await time.pause(time.random.next() * 4_000, 'a client thinks');
  }

  /** Returns the id of a new sandbox; sometimes only when it is ready. Undefined if the service refuses it. */
  async createSandbox(body: CreateSandboxBody): Promise<string | undefined> {
    const created = await this.insist({ operation: operations.createSandbox, body, key: this.nextKey() });
    if (created.status !== 201) return undefined;
    const sandboxId: string = JSON.parse(created.body).sandbox.id;
    if (this.random.chance(0.5)) {
      const query = { waitFor: 'ready', waitMs: 20_000 };
      await this.insist({ operation: operations.getSandbox, params: { sandboxId }, query });
    }
    return sandboxId;
  }

  async killSandbox(sandboxId: string): Promise<void> {
    await this.insist({ operation: operations.killSandbox, params: { sandboxId }, key: this.nextKey() });
  }

  nextKey(): string {
    this.#keys += 1;
    return `key_${this.#keys}`;
  }

  /** Sends a request until it has a final answer; sometimes the same request several times at once. */
  async insist(call: Call): Promise<Answer> {
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
      const answer = await this.attempt(call);
      if (call.key !== undefined) invariants.answered(call.key, answer.status, answer.body);
      time.note(`client: ${call.operation.id} ${call.key ?? ''} ${answer.status} ${answer.code ?? ''} ${answer.body}`);
      if (answer.code === undefined || !PASSING.has(answer.code)) return answer;
      await time.pause(300 + time.random.next() * 2_000, 'a client repeats');
    }
  }

  /** Sends a request once, to any server. */
  async attempt(call: Call): Promise<Answer> {
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
