import { chmodSync, chownSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { IdRange } from '../base/id-range.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { openListeningSocket } from '../linux/listening-socket.ts';
import { AgentRelay } from './agent-relay.ts';

/** Name of the socket in the folder that the guest sees. */
export const DIAL_SOCKET = 'agent.sock';

export interface AgentRelaysOptions {
  /** Folder that allows traversal: the runtime accesses a guest's folder as the guest's own root. */
  dialsDir: string;
  socketsDir: string;
  service: { uid: number; gid: number };
}

/** The relays of all instances whose agent dials hostd. */
export class AgentRelays {
  readonly #options: AgentRelaysOptions;
  readonly #relays = new Map<InstanceKey, AgentRelay>();

  constructor(options: AgentRelaysOptions) {
    this.#options = options;
    mkdirSync(options.dialsDir, { recursive: true, mode: 0o711 });
    chmodSync(options.dialsDir, 0o711);
  }

  /** Returns the folder that the guest sees read-only. It stays the same while the instance lives. */
  folderOf(key: InstanceKey): string {
    return join(this.#options.dialsDir, key);
  }

  /** Serves the instance's sockets; replaces those that an earlier hostd left. The socket folder must exist. */
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

  /** Closes an instance's relay. Idempotent. The sockets are removed with their folders. */
  remove(key: InstanceKey): void {
    this.#relays.get(key)?.close();
    this.#relays.delete(key);
    rmSync(this.folderOf(key), { recursive: true, force: true });
  }

  /** Closes all relays. The instances keep running; the next hostd opens their relays again. */
  closeAll(): void {
    for (const relay of this.#relays.values()) relay.close();
    this.#relays.clear();
  }
}
