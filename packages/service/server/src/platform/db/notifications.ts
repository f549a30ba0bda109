import { Changes } from '../base/changes.ts';
import type { Database } from './database.ts';
import { postgresPool } from './postgres-database.ts';

/** Longest time until a waiter finds what another server changed, if it missed the notification. */
export const LOOK_AGAIN_MS = 1_000;

/** Topics of notifications between servers. */
export type Topic =
  | 'api_keys'
  | 'event'
  | 'image_layer'
  | 'log'
  | 'mcp_session'
  | 'preview'
  | 'sandbox'
  | 'template_build'
  | 'workspace_run';

export interface NotificationListener {
  /** Called for each resource that another server changed. */
  heard(id: string): void;
  /** Called when notifications may have been missed. */
  missed(): void;
}

/**
 * Notifies the other servers of the database of what this server has changed. Best effort: while the connection is
 * down, notifications are lost, so every waiter also reads the database again from time to time.
 */
export interface Notifications {
  /**
   * Longest time until a waiter reads its records again without a notification. Undefined if no other server changes
   * them.
   */
  readonly lookAgainMs: number | undefined;
  /** Notifies the other servers of a change, a few milliseconds later. Call it after the commit of the change. */
  send(topic: Topic, id: string): void;
  subscribe(topic: Topic, listener: NotificationListener): void;
  /** Sends pending notifications, and stops listening. */
  close(): Promise<void>;
}

/** Notifications for a database with one server. Sends nothing. */
export const NO_NOTIFICATIONS: Notifications = {
  lookAgainMs: undefined,
  send: () => undefined,
  subscribe: () => undefined,
  close: async () => undefined,
};

/** Opens the notifications between the servers of `db`. Does not wait for the connection. */
export function openNotifications(db: Database): Notifications {
  return postgresPool(db)?.openNotifications() ?? NO_NOTIFICATIONS;
}

/** Returns changes of one kind of resource, which wake the waiters of all servers. */
export function sharedChanges<Key extends string>(
  topic: Topic,
  notifications: Notifications,
  lookAgainMs = notifications.lookAgainMs,
): Changes<Key> {
  const changes = new Changes<Key>({ tell: (id) => notifications.send(topic, id), lookAgainMs });
  // Sound: other servers send keys of the same type. An unknown key has no waiters.
  notifications.subscribe(topic, { heard: (id) => changes.wake(id as Key), missed: () => changes.wakeAll() });
  return changes;
}
