import type { MemoryMode } from '@cloche/contract';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Freezer } from './freezer.ts';
import type { KeptDisks } from './kept-disks.ts';

/** The first migration whose servers know that a sandbox can be paused: others would end it, because it is silent. */
const KNOWS_PAUSES = '041-pauses-expand';
/** The first migration whose servers pause a sandbox at its expiry: others would destroy it. */
const KNOWS_POLICIES = '042-pause-policies-expand';
/** The first migration whose servers know sandboxes without an instance whose disks are kept. */
const KNOWS_DISKS = '045-kept-disks-expand';

/** Says whether sandboxes can be paused, by the host and by every server that is alive. */
export class PauseSupport {
  readonly #freezer: Pick<Freezer, 'isSupported'>;
  readonly #disks: Pick<KeptDisks, 'isSupported'>;
  readonly #servers: LiveServers;

  constructor(freezer: Pick<Freezer, 'isSupported'>, disks: Pick<KeptDisks, 'isSupported'>, servers: LiveServers) {
    this.#freezer = freezer;
    this.#disks = disks;
    this.#servers = servers;
  }

  /** At the request of a client. */
  async onRequest(): Promise<boolean> {
    return this.#freezer.isSupported && (await this.#servers.allKnow(KNOWS_PAUSES));
  }

  /** By itself, as the policy of a sandbox says. */
  async byPolicy(memory: MemoryMode = 'prefer'): Promise<boolean> {
    if (memory === 'drop') return this.ofFiles();
    return this.#freezer.isSupported && (await this.#servers.allKnow(KNOWS_POLICIES));
  }

  /** With their files alone. */
  async ofFiles(): Promise<boolean> {
    return this.#disks.isSupported && (await this.#servers.allKnow(KNOWS_DISKS));
  }
}
