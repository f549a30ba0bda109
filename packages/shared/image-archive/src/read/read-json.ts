import { createHash } from 'node:crypto';
import { ImageError } from './image-error.ts';
import type { ImageFiles } from './image-files.ts';

/** Manifests and configurations have a few kilobytes; histories of generated images reach megabytes. */
export const MAX_JSON_BYTES = 8 * 1024 * 1024;

export type Json = Readonly<Record<string, unknown>>;

/** Algorithms of digests, with the length of their hexadecimal form. */
const DIGEST = /^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;

/** Reads a JSON object or list of the archive. @throws {ImageError} */
export function readJson(archive: ImageFiles, name: string): unknown {
  return parse(archive.read(name, MAX_JSON_BYTES), name);
}

/** Reads a JSON object by its digest, and checks the digest. @throws {ImageError} */
export function readBlobJson(archive: ImageFiles, digest: string): Json {
  const name = blobName(digest);
  if (!archive.has(name))
    throw new ImageError(`The image archive lacks ${digest}; save the image again, with all its parts.`);
  const bytes = archive.read(name, MAX_JSON_BYTES);
  requireDigest(bytes, digest);
  return asObject(parse(bytes, name), name);
}

/** @throws {ImageError} if the bytes have another digest. */
export function requireDigest(bytes: Buffer, digest: string): void {
  const [algorithm = ''] = digest.split(':');
  const actual = `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`;
  if (actual !== digest) throw new ImageError(`The content of ${digest} has another digest: ${actual}.`);
}

/** Returns the name of a blob in an OCI image layout. @throws {ImageError} for a digest that is not well-formed. */
export function blobName(digest: string): string {
  return `blobs/${asDigest(digest).replace(':', '/')}`;
}

export function asDigest(value: unknown): string {
  if (typeof value === 'string' && DIGEST.test(value)) return value;
  throw new ImageError(`The image has an invalid digest: ${shortened(value)}.`);
}

export function asObject(value: unknown, what: string): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  throw new ImageError(`${what} of the image archive is no JSON object.`);
}

export function asList(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new ImageError(`${what} of the image archive is no list.`);
}

export function shortened(value: unknown): string {
  return (JSON.stringify(value) ?? 'none').slice(0, 200);
}

function parse(bytes: Buffer, name: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    throw new ImageError(`${name} of the image archive is no JSON.`);
  }
}
