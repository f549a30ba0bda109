import { chmodSync, chownSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { IdRange } from '../base/id-range.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { openListeningSocket } from '../kernel/listening-socket.ts';
import { AgentRelay } from './agent-relay.ts';

/** Its name in the folder that the guest sees. */
export const DIAL_SOCKET = 'agent.sock';

export interface AgentRelaysOptions {
  /** Open to be passed through: the runtime shows a guest its folder as the guest's own root. */
  dialsDir: string;
  socketsDir: string;
  service: { uid: number; gid: number };
}

/** The relays of all instances whose agent dials out. */
export class AgentRelays {
  readonly #options: AgentRelaysOptions;
  readonly #relays = new Map<InstanceKey, AgentRelay>();

  constructor(options: AgentRelaysOptions) {
    this.#options = options;
    mkdirSync(options.dialsDir, { recursive: true, mode: 0o711 });
    chmodSync(options.dialsDir, 0o711);
  }

  /** What the guest sees, read-only. It stays the same folder for as long as the instance lives. */
  folderOf(key: InstanceKey): string {
    return join(this.#options.dialsDir, key);
  }

  /** Serves at the instance's sockets, made anew where an earlier hostd left its own. The socket folder is there. */
  open(key: InstanceKey, { base }: IdRange): void {
    const { socketsDir, service } = this.#options;
    const folder = this.folderOf(key);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chownSync(folder, base, base);
    const paths = { outside: join(socketsDir, key, 'agent.sock'), inside: join(folder, DIAL_SOCKET) };
    for (const path of Object.values(paths)) rmSync(path, { force: true });
    const inside = openListeningSocket(paths.inside, { uid: base, gid: base });
    const outside = openListeningSocket(paths.outside, service);
    this.#relays.set(key, new AgentRelay({ inside, outside }));
  }

  /** Idempotent. The sockets go with their folders. */
  remove(key: InstanceKey): void {
    this.#relays.get(key)?.close();
    this.#relays.delete(key);
    rmSync(this.folderOf(key), { recursive: true, force: true });
  }

  /** Instances live on; the next hostd opens theirs again. */
  closeAll(): void {
    for (const relay of this.#relays.values()) relay.close();
    this.#relays.clear();
  }
}
