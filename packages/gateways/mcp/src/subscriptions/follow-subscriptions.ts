import type { Cloche } from '@cloche/sdk';
import type { McpSession } from '../sessions/session.ts';
import { WatchedResources } from './watched-resources.ts';

/** Changes of a file within this time are one notification: a program writes a file in several steps. */
const GATHER_MS = 100;

export interface FollowOptions {
  readonly cloche: Cloche;
  readonly session: Pick<McpSession, 'follow'>;
  readonly signal: AbortSignal;
  /** Tells the client that a resource has changed. Resolves when it may be called again. */
  readonly tell: (uri: string) => Promise<void>;
}

/** Notifies a client of changes of its subscribed resources, until the session ends or `signal` aborts. */
export async function followSubscriptions({ cloche, session, signal, tell }: FollowOptions): Promise<void> {
  const changed = new Set<string>();
  let telling: Promise<void> | undefined;
  const tellAll = async () => {
    while (changed.size > 0 && !signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
      const uris = [...changed];
      changed.clear();
      for (const uri of uris) await tell(uri);
    }
  };
  using watched = new WatchedResources(cloche, (uri) => {
    changed.add(uri);
    telling ??= tellAll().finally(() => {
      telling = undefined;
    });
    telling.catch(() => undefined);
  });
  for await (const uris of session.follow(signal)) watched.set(uris);
}
