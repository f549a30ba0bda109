import type { Readable } from 'node:stream';

/** The files of an image by their names: those of an archive, or of an OCI image layout that was downloaded. */
export interface ImageFiles {
  has(name: string): boolean;
  /** Returns the size of the file in bytes; undefined if it does not exist. */
  sizeOf(name: string): number | undefined;
  /** Reads a file from its beginning. @throws {ImageError} if there is none of that name. */
  stream(name: string): Readable;
  /** Returns the bytes of a small file. @throws {ImageError} if it is missing or larger than `maxBytes`. */
  read(name: string, maxBytes: number): Buffer;
  /** Returns the first bytes of a file, by which `detectArchive` knows its compression. */
  firstBytes(name: string): Buffer;
}
