import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Freezer } from './freezer.ts';

/** The first migration whose servers know that a sandbox can be paused: others would end it, because it is silent. */
const KNOWS_PAUSES = '041-pauses-expand';
/** The first migration whose servers pause a sandbox at its expiry: others would destroy it. */
const KNOWS_POLICIES = '042-pause-policies-expand';

/** Says whether sandboxes can be paused, by the host and by every server that is alive. */
export class PauseSupport {
  readonly #freezer: Pick<Freezer, 'isSupported'>;
  readonly #servers: LiveServers;

  constructor(freezer: Pick<Freezer, 'isSupported'>, servers: LiveServers) {
    this.#freezer = freezer;
    this.#servers = servers;
  }

  /** At the request of a client. */
  async onRequest(): Promise<boolean> {
    return this.#freezer.isSupported && (await this.#servers.allKnow(KNOWS_PAUSES));
  }

  /** By itself, as the policy of a sandbox says. */
  async byPolicy(): Promise<boolean> {
    return this.#freezer.isSupported && (await this.#servers.allKnow(KNOWS_POLICIES));
  }
}
