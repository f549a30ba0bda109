/** Notifications between simulated servers: each may be late or lost, as those of PostgreSQL may. */
import {
  LOOK_AGAIN_MS,
  type NotificationListener,
  type Notifications,
  type Topic,
} from '../../src/platform/db/notifications.ts';
import { isCut, type Peer } from './faults.ts';
import type { Seams } from './seams.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Share of notifications that are lost, and of servers that hear nothing in a simulation. */
const LOST = 0.1;

type Listeners = Map<Topic, NotificationListener[]>;

export class NotificationBus {
  readonly #time: VirtualTime;
  readonly #seams: Seams;
  readonly #servers = new Map<Peer, Listeners>();

  constructor(time: VirtualTime, seams: Seams) {
    this.#time = time;
    this.#seams = seams;
  }

  join(peer: Peer): Notifications {
    const listeners: Listeners = new Map();
    this.#servers.set(peer, listeners);
    return {
      lookAgainMs: LOOK_AGAIN_MS,
      send: (topic, id) => this.#send(peer, topic, id),
      subscribe: (topic, listener) => {
        listeners.set(topic, [...(listeners.get(topic) ?? []), listener]);
      },
      close: async () => this.leave(peer),
    };
  }

  leave(peer: Peer): void {
    this.#servers.delete(peer);
  }

  #send(from: Peer, topic: Topic, id: string): void {
    if (isCut(from, 'database', this.#time.now())) return;
    for (const [peer, listeners] of this.#servers) {
      if (peer === from || this.#time.random.chance(LOST)) continue;
      const hear = () => {
        if (isCut(peer, 'database', this.#time.now())) return;
        for (const listener of listeners.get(topic) ?? []) listener.heard(id);
      };
      this.#time.afterFor(peer, 5 + this.#seams.latency(), `heard ${topic} ${id}`, hear);
    }
  }
}
