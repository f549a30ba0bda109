import { Socket } from 'node:net';
import { BackOff, pause } from '@cloche/node-support';
import { Client, type ClientConfig, type Notification } from 'pg';
import { LOOK_AGAIN_MS, type NotificationListener, type Notifications, type Topic } from '../notifications.ts';

const CHANNEL = 'cloche';
/** Time for which changes are gathered, so that many changes at once are one statement. */
const GATHER_MS = 5;
/** Ids in one notification: PostgreSQL takes less than 8,000 bytes. */
const IDS_AT_ONCE = 50;
const RECONNECT: ConstructorParameters<typeof BackOff>[0] = { firstMs: 100, longestMs: 5_000 };
/**
 * Interval at which the connection is tested, and time for the answer. A host that has crashed does not close its
 * connections.
 */
const TRY_MS = 10_000;
const ANSWER_MS = 5_000;

/**
 * Notifications by LISTEN and NOTIFY on one separate connection. A NOTIFY takes a lock of the whole PostgreSQL server
 * at its commit, so it is never part of the transaction of the change, and each server sends one at a time.
 */
export class PostgresNotifications implements Notifications {
  readonly lookAgainMs = LOOK_AGAIN_MS;
  readonly #config: ClientConfig;
  readonly #listeners = new Map<string, Set<NotificationListener>>();
  readonly #gathered = new Map<Topic, Set<string>>();
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  #client: Client | undefined;
  #sending: Promise<void> | undefined;

  constructor(config: ClientConfig) {
    this.#config = {
      ...config,
      application_name: 'cloche notifications',
      keepAlive: true,
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
    };
    this.#done = this.#run();
  }

  /** Whether the connection is established. */
  get isConnected(): boolean {
    return this.#client !== undefined;
  }

  send(topic: Topic, id: string): void {
    // Without a connection nothing is sent; the other servers read the database again by themselves.
    if (!this.#client) return;
    const ids = this.#gathered.get(topic) ?? new Set();
    this.#gathered.set(topic, ids.add(id));
    this.#sending ??= this.#sendGathered();
  }

  subscribe(topic: Topic, listener: NotificationListener): void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#sending;
    await this.#done;
  }

  /** Keeps a connection open until `close`. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const pauses = new BackOff(RECONNECT);
    while (!signal.aborted) {
      const socket = new Socket();
      const client = new Client({ ...this.#config, stream: () => socket });
      const lost = Promise.withResolvers<void>();
      client.on('error', () => lost.resolve());
      client.on('end', () => lost.resolve());
      client.on('notification', (message) => this.#hear(message));
      try {
        await client.connect();
        // Notifications do not survive a crash of the PostgreSQL server anyway, so their commits need not wait for the
        // disk.
        await client.query(`set synchronous_commit = off; listen ${CHANNEL}`);
        this.#client = client;
        pauses.reset();
        for (const listener of this.#all()) listener.missed();
        await this.#keep(client, lost.promise);
      } catch {
        // PostgreSQL does not answer. The users of the pool report that.
      } finally {
        this.#client = undefined;
        this.#gathered.clear();
        const ended = client.end().catch(() => undefined);
        // A host that is gone does not close its end of the connection.
        socket.destroySoon();
        await ended;
      }
      await pauses.pause(signal, { ref: false });
    }
  }

  /** Resolves when the connection is lost, or when `close` has sent the pending notifications. */
  async #keep(client: Client, lost: Promise<void>): Promise<void> {
    const { signal } = this.#stop;
    const over = lost.then(() => true);
    while (!(await Promise.race([over, pause(TRY_MS, signal, { ref: false })]))) {
      if (signal.aborted) return this.#sending;
      await client.query('select');
    }
  }

  async #sendGathered(): Promise<void> {
    await pause(GATHER_MS, this.#stop.signal);
    while (this.#client && this.#gathered.size > 0) {
      const changes = [...this.#gathered].flatMap(([topic, ids]) => [...ids].map((id) => [topic, id]));
      this.#gathered.clear();
      const payloads: string[] = [];
      for (let at = 0; at < changes.length; at += IDS_AT_ONCE) {
        payloads.push(JSON.stringify(changes.slice(at, at + IDS_AT_ONCE)));
      }
      const query = 'select pg_notify($1, payload) from unnest($2::text[]) as payload';
      // `#keep` notices a lost connection.
      await this.#client.query(query, [CHANNEL, payloads]).catch(() => undefined);
    }
    this.#sending = undefined;
  }

  #hear({ payload = '' }: Notification): void {
    for (const [topic, id] of changesOf(payload)) {
      for (const listener of this.#listeners.get(topic) ?? []) listener.heard(id);
    }
  }

  #all(): NotificationListener[] {
    return [...this.#listeners.values()].flatMap((listeners) => [...listeners]);
  }
}

/** Returns the topics and ids of a notification, or nothing for one that no server of this kind has sent. */
function changesOf(payload: string): [topic: string, id: string][] {
  try {
    const changes: unknown = JSON.parse(payload);
    return Array.isArray(changes) ? changes.filter(isChange) : [];
  } catch {
    return [];
  }
}

function isChange(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string');
}
