import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ImageError } from '../read/image-error.ts';
import type { ImageFiles } from '../read/image-files.ts';
import { readAt } from '../read/read-at.ts';

/** Names that an OCI image layout has. Digests name all files but the index, so no name leaves the folder. */
const NAME = /^(?:index\.json|blobs\/sha256\/[0-9a-f]{64}|blobs\/sha512\/[0-9a-f]{128})$/;
const FIRST_BYTES = 4;

/** An OCI image layout in a folder. */
export class PulledFiles implements ImageFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  has(name: string): boolean {
    return NAME.test(name) && existsSync(this.pathOf(name));
  }

  sizeOf(name: string): number | undefined {
    return this.has(name) ? statSync(this.pathOf(name)).size : undefined;
  }

  stream(name: string) {
    // Its reader learns of an error, also of one before it reads.
    return createReadStream(this.pathOf(name)).on('error', () => undefined);
  }

  read(name: string, maxBytes: number): Buffer {
    const path = this.pathOf(name);
    if (statSync(path).size > maxBytes) throw new ImageError(`${name} of the image is larger than ${maxBytes} bytes.`);
    return readFileSync(path);
  }

  firstBytes(name: string): Buffer {
    return readAt(this.pathOf(name), FIRST_BYTES, 0);
  }

  /** Returns the path of a file that is there or is to be written. @throws {ImageError} for any other name. */
  pathOf(name: string): string {
    if (!NAME.test(name)) throw new ImageError(`${JSON.stringify(name)} is no file of an image.`);
    return join(this.#folder, name);
  }
}
