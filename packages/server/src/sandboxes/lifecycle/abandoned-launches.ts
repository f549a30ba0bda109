import type { Logger } from 'pino';
import type { LiveServers } from '../../db/live-servers.ts';
import { isPending, PENDING_STATUSES, type SandboxRecord } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import type { LaunchSandbox } from './launch-sandbox.ts';

export interface AbandonedLaunchesDeps {
  readonly sandboxes: SandboxRepository;
  readonly launchSandbox: LaunchSandbox;
  readonly servers: LiveServers;
  readonly log: Logger;
}

/**
 * Takes over launches whose server has given them up or no longer lives. A launch of this server that is not under way
 * was that of its previous process.
 */
export class AbandonedLaunches {
  readonly #deps: AbandonedLaunchesDeps;

  constructor(deps: AbandonedLaunchesDeps) {
    this.#deps = deps;
  }

  /** Takes over those of all records. */
  async takeOver(): Promise<void> {
    await this.takeOverOf(await this.#deps.sandboxes.listByStatus(PENDING_STATUSES));
  }

  /** Takes over those of `records`, which must have been read before. A failure is left to the next call. */
  async takeOverOf(records: readonly SandboxRecord[]): Promise<void> {
    const { launchSandbox, servers, log } = this.#deps;
    const pending = records.filter((record) => isPending(record) && !launchSandbox.isUnderWay(record.id));
    if (pending.length === 0) return;
    const others = await servers.others();
    for (const record of pending) {
      if (record.launchOwner !== undefined && others.has(record.launchOwner)) continue;
      log.info({ sandboxId: record.id, generation: record.generation }, 'a launch without a server is taken over');
      await launchSandbox.restart(record).catch((error) => {
        log.warn({ err: error, sandboxId: record.id }, 'a launch could not be taken over yet');
      });
    }
  }
}
