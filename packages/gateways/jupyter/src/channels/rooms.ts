import type { Logger } from 'pino';
import { Room } from './room.ts';

/** Rooms that are kept although no client is connected. */
const MAX_EMPTY = 1000;
const REPLAY_BYTES = 64 * 1024 * 1024;

/** The kernels that clients of this server have used. Deciding who may use one is left to `/v1`. */
export class Rooms {
  readonly #rooms = new Map<string, Room>();
  readonly #space = { left: REPLAY_BYTES };
  /** Ids of kernels by sandbox. A lost entry costs one request. */
  readonly known = new Map<string, string>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  find(kernelId: string): Room | undefined {
    return this.#rooms.get(kernelId);
  }

  open(kernelId: string): Room {
    const room = this.#rooms.get(kernelId) ?? new Room(this.#space, this.#log);
    // The last one in the map was used last.
    this.#rooms.delete(kernelId);
    this.#rooms.set(kernelId, room);
    if (this.#rooms.size > MAX_EMPTY) this.#dropOldest();
    return room;
  }

  async remove(kernelId: string): Promise<void> {
    const room = this.#rooms.get(kernelId);
    this.#rooms.delete(kernelId);
    await room?.close();
  }

  useOf(kernelId: string): { connections: number; lastActivity: string | undefined; isBusy: boolean } {
    const { connections = 0, lastActivity, isBusy = false } = this.#rooms.get(kernelId) ?? {};
    return { connections, lastActivity, isBusy };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#rooms.keys()].map((kernelId) => this.remove(kernelId)));
  }

  #dropOldest(): void {
    const unused = [...this.#rooms].find(([, room]) => room.connections === 0 && !room.isBusy);
    if (!unused) return;
    const [kernelId] = unused;
    this.remove(kernelId).catch((err: unknown) =>
      this.#log.error({ err }, 'a kernel without clients was not forgotten'),
    );
  }
}
