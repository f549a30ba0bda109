import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive';
import { ownPlatform } from '../src/read/image-config.ts';

/** An entry of a tar, with values that no honest program would write. */
export interface TestEntry {
  name: string;
  /** Type flag: `0` file (default), `1` hard link, `2` symbolic link, `3` device, `5` directory. */
  flag?: string;
  content?: string | Buffer;
  target?: string;
  mode?: number;
  uid?: number;
  gid?: number;
  /** Size that the header states. Default: that of the content. */
  size?: number;
}

export interface TestImage {
  /** Decompressed tars, from the lowest layer on. */
  layers: readonly Buffer[];
  config?: Record<string, unknown>;
  platform?: string;
  compression?: 'none' | 'gzip' | 'zstd';
}

export const tarOf = (entries: readonly TestEntry[]): Buffer =>
  Buffer.concat([
    ...entries.map(
      ({ name, flag = '0', content = '', target = '', mode = flag === '5' ? 0o755 : 0o644, size, ...owner }) => {
        const bytes = Buffer.from(content);
        const header = writeTarHeader({
          name,
          flag,
          mode,
          size: size ?? bytes.length,
          mtime: 1,
          linkName: target,
          ...owner,
        });
        return Buffer.concat([header, bytes, Buffer.alloc(tarPadding(bytes.length))]);
      },
    ),
    Buffer.alloc(2 * TAR_BLOCK_BYTES),
  ]);

export const digestOf = (bytes: Buffer | string): string =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** Writes an image as `docker save` did before version 25. `change` can spoil the files. */
export function writeSaved(
  file: string,
  image: TestImage,
  change: (files: Record<string, Buffer>) => void = () => {},
): void {
  const config = configOf(image);
  const files: Record<string, Buffer> = { [`${digestOf(config).slice(7)}.json`]: config };
  const names = image.layers.map((layer, index) => {
    const name = `${digestOf(layer).slice(7)}-${index}/layer.tar`;
    files[name] = compressed(layer, image);
    return name;
  });
  files['manifest.json'] = json([{ Config: Object.keys(files)[0], RepoTags: ['test:latest'], Layers: names }]);
  change(files);
  writeFiles(file, files);
}

/** Writes an image as an OCI image layout, for `platforms` with the same content. */
export function writeLayout(
  file: string,
  image: TestImage,
  change: (files: Record<string, Buffer>) => void = () => {},
  platforms: readonly (string | undefined)[] = [ownPlatform()],
): void {
  const files: Record<string, Buffer> = { 'oci-layout': json({ imageLayoutVersion: '1.0.0' }) };
  const add = (bytes: Buffer, mediaType: string) => {
    files[`blobs/sha256/${digestOf(bytes).slice(7)}`] = bytes;
    return { mediaType, digest: digestOf(bytes), size: bytes.length };
  };
  const manifests = platforms.map((platform) => {
    const ofPlatform = platform === undefined ? image : { ...image, platform };
    const layers = image.layers.map((layer) => add(compressed(layer, image), 'application/vnd.oci.image.layer.v1.tar'));
    const config = add(configOf(ofPlatform), 'application/vnd.oci.image.config.v1+json');
    const manifest = add(json({ schemaVersion: 2, config, layers }), 'application/vnd.oci.image.manifest.v1+json');
    const [os, architecture] = platform?.split('/') ?? [];
    return platform === undefined ? manifest : { ...manifest, platform: { os, architecture } };
  });
  files['index.json'] = json({ schemaVersion: 2, manifests });
  change(files);
  writeFiles(file, files);
}

function configOf({ layers, config = {}, platform = ownPlatform() }: TestImage): Buffer {
  const [os, architecture] = platform.split('/');
  return json({ os, architecture, config, rootfs: { type: 'layers', diff_ids: layers.map(digestOf) } });
}

function compressed(layer: Buffer, { compression = 'none' }: TestImage): Buffer {
  if (compression === 'gzip') return gzipSync(layer);
  return compression === 'zstd' ? zstdCompressSync(layer) : layer;
}

function writeFiles(file: string, files: Record<string, Buffer>): void {
  writeFileSync(file, tarOf(Object.entries(files).map(([name, content]) => ({ name, content }))));
}

export function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
