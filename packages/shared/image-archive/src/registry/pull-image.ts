import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ImageConfig, ownPlatform, readImageConfig } from '../read/image-config.ts';
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
import type { PullProgress } from './pull-progress.ts';
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

export interface PullOptions {
  readonly platform?: string;
  readonly progress?: PullProgress;
  /** Digests of the layers to download. Default: all that the folder lacks. */
  readonly only?: ReadonlySet<string> | undefined;
}

/**
 * Downloads the image for `platform` to a folder, as an OCI image layout. Layers that are in the folder already are not
 * downloaded; unpacking checks them again. Every other byte has been checked against the digests and sizes of the
 * manifests.
 *
 * @param reference a tag or a digest
 * @throws {ImageError}
 */
export async function pullImage(
  client: RegistryClient,
  reference: string,
  folder: string,
  { platform = ownPlatform(), progress, only }: PullOptions = {},
): Promise<PulledFiles> {
  for (const name of ['blobs/sha256', 'blobs/sha512']) mkdirSync(join(folder, name), { recursive: true });
  const files = new PulledFiles(folder);
  const found = await findManifest(client, reference, platform);
  const { digest, bytes, json } = found;
  writeFileSync(files.pathOf(blobName(digest)), bytes, { mode: 0o600 });
  const { config, layers } = blobsOf(json, client.name);
  progress?.begin(layers);
  const wanted = only ? layers.filter(({ digest }) => only.has(digest)) : layers;
  const left = [config, ...wanted].filter(({ digest, size }) => files.sizeOf(blobName(digest)) !== size);
  requireRoom(left, folder);
  const work = async () => {
    for (let blob = left.shift(); blob; blob = left.shift()) {
      const path = files.pathOf(blobName(blob.digest));
      rmSync(path, { force: true });
      const startedAt = performance.now();
      await downloadBlob(client, blob, path, progress?.watch(blob));
      progress?.ended(blob, performance.now() - startedAt);
    }
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

/** Returns the layers of the image for this platform, from the lowest on, each once. @throws {ImageError} */
export async function listLayers(client: RegistryClient, reference: string): Promise<readonly BlobDescriptor[]> {
  const { json } = await findManifest(client, reference, ownPlatform());
  return blobsOf(json, client.name).layers;
}

/** Returns the digest of the image or index, and the settings of the image for this platform. @throws {ImageError} */
export async function inspectImage(
  client: RegistryClient,
  reference: string,
): Promise<{ readonly digest: string; readonly config: ImageConfig }> {
  const digest = await resolveImage(client, reference);
  const { json } = await findManifest(client, digest, ownPlatform());
  const { config } = blobsOf(json, client.name);
  const bytes = await (await client.request(`blobs/${config.digest}`)).bytes(MAX_JSON_BYTES);
  requireDigest(bytes, config.digest);
  return { digest, config: readImageConfig(parse(bytes, client.name)) };
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

/** Follows indexes to the manifest of one image. */
async function findManifest(client: RegistryClient, reference: string, platform: string): Promise<Manifest> {
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
  return found;
}

/** Returns the configuration and the layers, each once. */
function blobsOf(json: Json, image: string): { config: BlobDescriptor; layers: BlobDescriptor[] } {
  const config = asObject(json.config, 'config');
  if (!CONFIG.test(String(config.mediaType)))
    throw new ImageError(`${image} is no image, but has the type ${shortened(config.mediaType)}.`);
  const layers = asList(json.layers, 'layers').map((layer) => asObject(layer, 'layer'));
  if (layers.length > MAX_LAYERS) throw new ImageError(`The image has more than ${MAX_LAYERS} layers.`);
  const descriptorOf = ({ digest, size }: Json) => ({ digest: asDigest(digest), size: asSize(size) });
  const own = descriptorOf(config);
  if (own.size > MAX_JSON_BYTES) throw new ImageError(`The configuration of ${image} has ${own.size} bytes.`);
  const blobs = new Map(layers.map(descriptorOf).map((layer) => [layer.digest, layer]));
  blobs.delete(own.digest);
  return { config: own, layers: [...blobs.values()] };
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
