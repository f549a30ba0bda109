import type { Logger } from 'pino';
import type { LiveServers } from '../../../platform/db/live-servers.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { LaunchSandbox } from './launch-sandbox.ts';

export interface AbandonedLaunchesDeps {
  readonly sandboxes: SandboxRepository;
  readonly launchSandbox: LaunchSandbox;
  readonly servers: LiveServers;
  readonly log: Logger;
}

/**
 * Takes over launches whose server has released them or is no longer alive. A launch that belongs to this server but is
 * not under way was begun by its previous process.
 */
export class AbandonedLaunches {
  readonly #deps: AbandonedLaunchesDeps;

  constructor(deps: AbandonedLaunchesDeps) {
    this.#deps = deps;
  }

  /** Takes over the abandoned launches among all records. */
  async takeOver(): Promise<void> {
    await this.takeOverOf(await this.#deps.sandboxes.listThat('isPending'));
  }

  /**
   * Takes over the abandoned launches among `records`. The records must have been read before this call, because the
   * servers are read in it. A launch that fails to be taken over is left to the next call.
   */
  async takeOverOf(records: readonly SandboxRecord[]): Promise<void> {
    const { launchSandbox, servers, log } = this.#deps;
    const pending = records.filter((record) => factsOf(record).isPending && !launchSandbox.isUnderWay(record.id));
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
