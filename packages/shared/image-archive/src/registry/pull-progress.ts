import type { BlobDescriptor } from './download-blob.ts';

const MEBIBYTE = 1024 * 1024;
/** Shortest and longest time between two lines about a layer that is being downloaded. */
const SHORTEST_MS = 2_000;
const LONGEST_MS = 30_000;
/** Share of a layer that must have arrived since its last line, unless the longest time has passed. */
const STEP = 0.1;

/** Receives the progress of the download of one blob. */
export interface DownloadWatch {
  /** @param bytes bytes of the blob that have been downloaded so far */
  grew(bytes: number): void;
  /** The connection has ended before the blob; another one continues. */
  cutOff(bytes: number): void;
}

/** Writes lines about the layers of an image that is downloaded. Their number is bounded by the layers and the time. */
export class PullProgress {
  readonly #write: (line: string) => void;
  readonly #now: () => number;
  #titles: ReadonlyMap<string, string> = new Map();

  constructor(write: (line: string) => void, now: () => number = performance.now.bind(performance)) {
    this.#write = write;
    this.#now = now;
  }

  /** @param layers each once, in their order */
  begin(layers: readonly BlobDescriptor[]): void {
    const title = ({ digest }: BlobDescriptor, index: number) =>
      `Layer ${index + 1} of ${layers.length} (${digest.slice(0, digest.indexOf(':') + 13)})`;
    this.#titles = new Map(layers.map((layer, index) => [layer.digest, title(layer, index)]));
  }

  /** A layer is complete, and its digest is the one that the manifest names. */
  ended(layer: BlobDescriptor, tookMs: number): void {
    this.#line(layer, `${mebibytes(layer.size)} MiB downloaded in ${(tookMs / 1000).toFixed(1)} s`);
  }

  watch(blob: BlobDescriptor): DownloadWatch {
    let lastBytes = 0;
    let lastAt = this.#now();
    const say = (bytes: number, what: string) => {
      this.#line(blob, what);
      lastBytes = bytes;
      lastAt = this.#now();
    };
    return {
      grew: (bytes) => {
        const sinceMs = this.#now() - lastAt;
        if (sinceMs < SHORTEST_MS || bytes === blob.size) return;
        if (bytes - lastBytes < blob.size * STEP && sinceMs < LONGEST_MS) return;
        say(bytes, `${mebibytes(bytes)} of ${mebibytes(blob.size)} MiB`);
      },
      cutOff: (bytes) =>
        say(
          bytes,
          `the connection broke after ${mebibytes(bytes)} of ${mebibytes(blob.size)} MiB; the download goes on`,
        ),
    };
  }

  /** The configuration of an image has no title, and no lines. */
  #line({ digest }: BlobDescriptor, what: string): void {
    const title = this.#titles.get(digest);
    if (title !== undefined) this.#write(`${title}: ${what}`);
  }
}

function mebibytes(bytes: number): string {
  return (bytes / MEBIBYTE).toFixed(1);
}
