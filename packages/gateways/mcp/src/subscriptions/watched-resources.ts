import { posix } from 'node:path';
import type { FileEvent, SandboxId } from '@cloche/contract';
import { type Cloche, Files } from '@cloche/sdk';
import { resourceAt } from '../resources/uris.ts';

/** Names a directory of a sandbox. */
type Place = string;

interface Watched {
  readonly sandboxId: SandboxId;
  readonly folder: string;
  /** The URIs of each file that is watched, by its path. */
  readonly files: Map<string, string[]>;
}

/**
 * Watches the files that a session has subscribed to, by one stream of `/v1` for each directory. Artifacts never
 * change, so they are not watched. If a directory does not exist, or its sandbox has ended, its files have no
 * notifications until the subscriptions of the session change again.
 */
export class WatchedResources implements Disposable {
  readonly #cloche: Cloche;
  readonly #changed: (uri: string) => void;
  readonly #watches = new Map<Place, { readonly watched: Watched; readonly stop: AbortController }>();

  /** @param changed called with the URI of a file that may have changed */
  constructor(cloche: Cloche, changed: (uri: string) => void) {
    this.#cloche = cloche;
    this.#changed = changed;
  }

  /** Replaces the set of watched resources. */
  set(uris: readonly string[]): void {
    const wanted = placesOf(uris);
    for (const [place, { stop }] of this.#watches) {
      if (wanted.has(place)) continue;
      this.#watches.delete(place);
      stop.abort();
    }
    for (const [place, watched] of wanted) {
      const stop = this.#watches.get(place)?.stop;
      this.#watches.set(place, { watched, stop: stop ?? this.#start(place, watched) });
    }
  }

  [Symbol.dispose](): void {
    this.set([]);
  }

  #start(place: Place, { sandboxId, folder }: Watched): AbortController {
    const stop = new AbortController();
    const { signal } = stop;
    const watch = async () => {
      for await (const event of new Files(this.#cloche, sandboxId).watch(folder, { signal })) this.#take(place, event);
    };
    // If the watch fails or ends, the next call of `set` starts another one.
    watch()
      .catch(() => undefined)
      .finally(() => {
        if (this.#watches.get(place)?.stop === stop) this.#watches.delete(place);
      });
    return stop;
  }

  #take(place: Place, event: FileEvent): void {
    const files = this.#watches.get(place)?.watched.files;
    if (!files) return;
    const isNotice = event.type === 'overflow' || event.type === 'complete';
    const changed = isNotice ? [...files.values()].flat() : (files.get(event.data.path) ?? []);
    for (const uri of changed) this.#changed(uri);
  }
}

function placesOf(uris: readonly string[]): Map<Place, Watched> {
  const places = new Map<Place, Watched>();
  for (const uri of uris) {
    const named = resourceAt(uri);
    if (named.kind !== 'file') continue;
    const { sandboxId } = named;
    const path = posix.normalize(named.path);
    const folder = posix.dirname(path);
    const place = `${sandboxId} ${folder}`;
    const watched = places.get(place) ?? { sandboxId, folder, files: new Map() };
    places.set(place, watched);
    watched.files.set(path, [...(watched.files.get(path) ?? []), uri]);
  }
  return places;
}
