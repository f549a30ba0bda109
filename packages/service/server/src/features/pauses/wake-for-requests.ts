import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { WakeSandbox } from './wake-sandbox.ts';

export interface WakeForRequestsDeps {
  readonly sandboxes: Pick<SandboxRepository, 'listPausedOf'>;
  readonly executions: Pick<Executions, 'inUse'>;
  readonly wakeSandbox: Pick<WakeSandbox, 'awake'>;
  readonly log: Logger;
}

const NEVER = new AbortController().signal;

/**
 * Wakes sandboxes that were paused while a request was on its way to the agent. The agent reads it only after a wake, and
 * until then the request waits.
 */
export class WakeForRequests {
  readonly #deps: WakeForRequestsDeps;
  /** Pauses that the last pass has seen with requests. Those that the pause has ended are answered by the next pass. */
  #seen = new Map<SandboxId, number>();

  constructor(deps: WakeForRequestsDeps) {
    this.#deps = deps;
  }

  /** Begins the wakes that this server's requests wait for. A wake that fails is begun again by the next pass. */
  async pass(): Promise<void> {
    const { sandboxes, executions, wakeSandbox, log } = this.#deps;
    const used = executions.inUse();
    const paused = used.length === 0 ? [] : await sandboxes.listPausedOf(used);
    const before = this.#seen;
    this.#seen = new Map(paused.map(({ id, pauseEpoch }) => [id, pauseEpoch]));
    for (const record of paused) {
      if (factsOf(record).isMoving || record.pause.wake === 'explicit') continue;
      if (before.get(record.id) !== record.pauseEpoch) continue;
      wakeSandbox.awake(record, NEVER).catch((error) => {
        log.debug({ err: error, sandboxId: record.id }, 'a sandbox that a request waits for could not be woken yet');
      });
    }
  }
}
