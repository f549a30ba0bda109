import { createHash } from 'node:crypto';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownPlatform } from '../read/image-config.ts';
import { ImageError } from '../read/image-error.ts';
import { INDEX_TYPE, MAX_INDEX_DEPTH } from '../read/read-image.ts';
import {
  asDigest,
  asList,
  asObject,
  blobName,
  type Json,
  MAX_JSON_BYTES,
  requireDigest,
  shortened,
} from '../read/read-json.ts';
import { chooseManifest } from './choose-manifest.ts';
import { type BlobDescriptor, downloadBlob } from './download-blob.ts';
import { PulledFiles } from './pulled-files.ts';
import type { RegistryClient } from './registry-client.ts';

const MAX_LAYERS = 1000;
const AT_ONCE = 3;
const MEBIBYTE = 1024 * 1024;

const MANIFEST = /(\.image\.manifest\.v1\+json|\.distribution\.manifest\.v2\+json)$/;
const CONFIG = /(\.image\.config\.v1\+json|\.container\.image\.v1\+json)$/;
const ACCEPT = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

/** Returns the digest that a tag has now. A digest is returned as it is. @throws {ImageError} */
export async function resolveImage(client: RegistryClient, reference: string): Promise<string> {
  if (reference.includes(':')) return asDigest(reference);
  const path = `manifests/${reference}`;
  const { headers } = await client.request(path, { method: 'HEAD', fields: { accept: ACCEPT } });
  // A registry may leave it out.
  const named = headers.get('docker-content-digest');
  return named === null ? (await fetchManifest(client, reference)).digest : asDigest(named);
}

/**
 * Downloads the image for `platform` to an empty folder, as an OCI image layout. Every byte has been checked against
 * the digests and sizes of the manifests.
 *
 * @param reference a tag or a digest
 * @throws {ImageError}
 */
export async function pullImage(
  client: RegistryClient,
  reference: string,
  folder: string,
  platform = ownPlatform(),
): Promise<PulledFiles> {
  for (const name of ['blobs/sha256', 'blobs/sha512']) mkdirSync(join(folder, name), { recursive: true });
  const files = new PulledFiles(folder);
  let found = await fetchManifest(client, reference);
  for (let depth = 0; isIndex(found); depth += 1) {
    if (depth === MAX_INDEX_DEPTH) throw new ImageError(`${client.name} has too many nested indexes.`);
    const { digest, size } = chooseManifest(found.json, platform, client.name);
    found = await fetchManifest(client, digest);
    if (found.bytes.length !== size)
      throw new ImageError(
        `The manifest ${digest} has ${found.bytes.length} bytes, and the index names ${shortened(size)}.`,
      );
  }
  const { digest, bytes, json } = found;
  writeFileSync(files.pathOf(blobName(digest)), bytes, { mode: 0o600 });
  const blobs = blobsOf(json, client.name);
  requireRoom(blobs, folder);
  const left = [...blobs];
  const work = async () => {
    for (let blob = left.shift(); blob; blob = left.shift())
      await downloadBlob(client, blob, files.pathOf(blobName(blob.digest)));
  };
  const downloads = Array.from({ length: AT_ONCE }, work);
  try {
    await Promise.all(downloads);
  } catch (error) {
    client.close();
    await Promise.allSettled(downloads);
    throw error;
  }
  writeFileSync(join(folder, 'index.json'), JSON.stringify({ manifests: [{ mediaType: found.mediaType, digest }] }));
  return files;
}

interface Manifest {
  readonly digest: string;
  readonly bytes: Buffer;
  readonly json: Json;
  readonly mediaType: string;
}

function isIndex({ mediaType, json }: Manifest): boolean {
  return INDEX_TYPE.test(mediaType) || (!MANIFEST.test(mediaType) && json.manifests !== undefined);
}

async function fetchManifest(client: RegistryClient, reference: string): Promise<Manifest> {
  const reply = await client.request(`manifests/${reference}`, { fields: { accept: ACCEPT } });
  const bytes = await reply.bytes(MAX_JSON_BYTES);
  const named = reference.includes(':') ? reference : reply.headers.get('docker-content-digest');
  const digest = named === null ? digestOf(bytes) : asDigest(named);
  requireDigest(bytes, digest);
  const json = parse(bytes, client.name);
  const mediaType = typeof json.mediaType === 'string' ? json.mediaType : (reply.headers.get('content-type') ?? '');
  if (json.schemaVersion !== 2)
    throw new ImageError(`The manifest of ${client.name} has the version ${shortened(json.schemaVersion)} and not 2.`);
  return { digest, bytes, json, mediaType };
}

/** Returns the configuration and the layers, each once. */
function blobsOf(json: Json, image: string): BlobDescriptor[] {
  const config = asObject(json.config, 'config');
  if (!CONFIG.test(String(config.mediaType)))
    throw new ImageError(`${image} is no image, but has the type ${shortened(config.mediaType)}.`);
  const layers = asList(json.layers, 'layers').map((layer) => asObject(layer, 'layer'));
  if (layers.length > MAX_LAYERS) throw new ImageError(`The image has more than ${MAX_LAYERS} layers.`);
  const blobs = new Map<string, BlobDescriptor>();
  for (const { digest, size } of [config, ...layers])
    blobs.set(asDigest(digest), { digest: asDigest(digest), size: asSize(size) });
  const { size } = blobs.get(asDigest(config.digest)) as BlobDescriptor;
  if (size > MAX_JSON_BYTES) throw new ImageError(`The configuration of ${image} has ${size} bytes.`);
  return [...blobs.values()];
}

function asSize(value: unknown): number {
  if (Number.isSafeInteger(value) && Number(value) >= 0) return Number(value);
  throw new ImageError(`The manifest names an invalid size: ${shortened(value)}.`);
}

function requireRoom(blobs: readonly BlobDescriptor[], folder: string): void {
  const wanted = blobs.reduce((sum, { size }) => sum + size, 0);
  const { bsize, bavail } = statfsSync(folder);
  if (wanted <= bsize * bavail) return;
  const [needs, has] = [wanted, bsize * bavail].map((bytes) => Math.ceil(bytes / MEBIBYTE));
  throw new ImageError(
    `The layers of the image have ${needs} MiB, and the disk of the build has ${has} MiB left; set resources.diskMb.`,
  );
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function parse(bytes: Buffer, image: string): Json {
  try {
    return asObject(JSON.parse(bytes.toString()), 'The manifest');
  } catch {
    throw new ImageError(`The manifest of ${image} is no JSON object.`);
  }
}
