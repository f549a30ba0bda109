import { type ImageConfig, ownPlatform, readImageConfig } from './image-config.ts';
import { ImageError } from './image-error.ts';
import type { ImageFiles } from './image-files.ts';
import {
  asDigest,
  asList,
  asObject,
  blobName,
  type Json,
  readBlobJson,
  readJson,
  requireDigest,
  shortened,
} from './read-json.ts';

/** A layer of an image, still compressed. */
export interface ImageLayer {
  /** File of the archive. */
  readonly name: string;
  /** Digest of the file; undefined in the older format of `docker save`. */
  readonly digest: string | undefined;
  /** Digest of the decompressed tar. */
  readonly diffId: string;
}

export interface Image {
  readonly config: ImageConfig;
  /** From the lowest on. */
  readonly layers: readonly ImageLayer[];
}

/** An index may name other indexes, by platforms. */
export const MAX_INDEX_DEPTH = 3;
/** Media types of indexes, of OCI and of Docker. */
export const INDEX_TYPE = /(\.image\.index\.|manifest\.list\.)/;

/**
 * Reads what an archive contains: an OCI image layout, or the older format of `docker save`. Takes the image for
 * `platform` where there are several.
 *
 * @throws {ImageError} if it has no image for that platform, several, or one that is not complete.
 */
export function readImage(archive: ImageFiles, platform = ownPlatform()): Image {
  const image = archive.has('index.json') ? readLayout(archive, platform) : readSaved(archive);
  const { config, layers } = image;
  if (config.platform !== platform)
    throw new ImageError(
      `The image is for ${shortened(config.platform)}, and this service needs one for "${platform}".`,
    );
  for (const [index, { name, diffId }] of layers.entries())
    if (!archive.has(name))
      throw new ImageError(
        `The image archive lacks layer ${index + 1} (${diffId}); save the image again, with all its layers.`,
      );
  return image;
}

function readLayout(archive: ImageFiles, platform: string): Image {
  const found = new Set<string>();
  const others = new Set<string>();
  collect(asObject(readJson(archive, 'index.json'), 'index.json'), 0);
  const [digest] = found;
  if (found.size > 1)
    throw new ImageError(`The image archive has ${found.size} images for "${platform}"; save one of them alone.`);
  if (digest === undefined) {
    const has = others.size > 0 ? `, only for ${[...others].map(shortened).join(', ')}` : '';
    throw new ImageError(`The image archive has no image for "${platform}"${has}.`);
  }
  const manifest = readBlobJson(archive, digest);
  const config = readImageConfig(readBlobJson(archive, asDigest(asObject(manifest.config, 'config').digest)));
  const layers = asList(manifest.layers, 'layers').map((layer) => asDigest(asObject(layer, 'layer').digest));
  return paired(
    config,
    layers.map((layer) => ({ name: blobName(layer), digest: layer })),
  );

  function collect(index: Json, depth: number): void {
    for (const each of asList(index.manifests, 'manifests')) {
      const descriptor = asObject(each, 'manifests');
      const inner = asDigest(descriptor.digest);
      if (isIndex(archive, descriptor)) {
        if (depth >= MAX_INDEX_DEPTH) throw new ImageError('The image archive has too many nested indexes.');
        collect(readBlobJson(archive, inner), depth + 1);
        continue;
      }
      const named = platformOf(descriptor);
      if (named === undefined || named === platform) found.add(inner);
      // An attestation is not an image.
      else if (named !== 'unknown/unknown') others.add(named);
    }
  }
}

function isIndex(archive: ImageFiles, { mediaType, digest }: Json): boolean {
  if (typeof mediaType === 'string' && mediaType !== '') return INDEX_TYPE.test(mediaType);
  return readBlobJson(archive, asDigest(digest)).manifests !== undefined;
}

/** Returns the platform of a manifest in an index, such as `linux/amd64`; undefined if none is named. */
export function platformOf({ platform }: Json): string | undefined {
  if (platform === undefined || platform === null) return undefined;
  const { os, architecture } = asObject(platform, 'platform');
  return `${os}/${architecture}`;
}

/** Reads `manifest.json`, which names the files of the image. */
function readSaved(archive: ImageFiles): Image {
  if (!archive.has('manifest.json'))
    throw new ImageError(
      'The archive is no image: it has neither index.json nor manifest.json; create it with `docker save` or as an oci-archive.',
    );
  const images = asList(readJson(archive, 'manifest.json'), 'manifest.json').map((each) =>
    asObject(each, 'manifest.json'),
  );
  const [image] = images;
  if (image === undefined || images.length > 1)
    throw new ImageError(`The image archive has ${images.length} images; save one of them alone.`);
  const name = asName(image.Config);
  const config = asObject(readJson(archive, name), name);
  const [, hex] = /(?:^|\/)([0-9a-f]{64})(?:\.json)?$/.exec(name) ?? [];
  if (hex !== undefined) requireDigest(archive.read(name, archive.sizeOf(name) ?? 0), `sha256:${hex}`);
  const layers = asList(image.Layers, 'Layers').map((layer) => ({ name: asName(layer), digest: undefined }));
  return paired(readImageConfig(config), layers);
}

function paired(config: ImageConfig, layers: readonly Omit<ImageLayer, 'diffId'>[]): Image {
  const { diffIds } = config;
  if (layers.length !== diffIds.length)
    throw new ImageError(`The image has ${layers.length} layers, and its configuration names ${diffIds.length}.`);
  return { config, layers: layers.map((layer, index) => ({ ...layer, diffId: diffIds[index] ?? '' })) };
}

function asName(value: unknown): string {
  if (typeof value === 'string' && value.length < 4096) return value;
  throw new ImageError(`manifest.json has an invalid name of a file: ${shortened(value)}.`);
}
