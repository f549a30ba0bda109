/**
 * A program that root runs inside a sandbox. Prints one line of JSON: the result, or `{ error: { message } }` and exit
 * code 1. Prints its progress to standard error, as text.
 *
 * - `node unpack-image.cjs ARCHIVE FOLDER` unpacks an untrusted image into a folder that does not exist yet.
 * - `node unpack-image.cjs pull REQUEST FOLDER` downloads it first. The file REQUEST has an `ImagePull`.
 * - `node unpack-image.cjs layers REQUEST` prints which layers that needs. Those that are in the folder `blobs` of
 *   `REQUEST.pulled`, by algorithm and digest, are not downloaded.
 * - `node unpack-image.cjs download REQUEST` downloads the layers to that folder, and unpacks nothing.
 * - `node unpack-image.cjs resolve REQUEST` prints the digest that the image has in its registry.
 * - `node unpack-image.cjs inspect REQUEST` prints the digest and the settings of the image.
 */
import { mkdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { type ImagePull, REGISTRY_PASSWORD } from '@cloche/protocol';
import { ArchiveFile } from '../read/archive-file.ts';
import type { ImageConfig } from '../read/image-config.ts';
import { ImageError } from '../read/image-error.ts';
import type { ImageFiles } from '../read/image-files.ts';
import { inspectImage, listLayers, pullImage, resolveImage } from '../registry/pull-image.ts';
import { PullProgress } from '../registry/pull-progress.ts';
import { RegistryClient } from '../registry/registry-client.ts';
import { prepareRoot } from './prepare-root.ts';
import { unpackImage } from './unpack-image.ts';

const MAX_ENTRIES = 1_000_000;
/** Layers may replace each other's files, so all together can be larger than the disk. */
const DISKS = 4;
/** Most characters of a line about the settings of an image. */
const NOTE_LENGTH = 1000;

process.umask(0o022);

main(process.argv.slice(2)).then(
  (result) => console.log(JSON.stringify(result)),
  (error) => {
    process.exitCode = 1;
    const isKnown = error instanceof ImageError;
    const message = isKnown ? error.message : `The image cannot be unpacked: ${error}`;
    console.log(JSON.stringify({ error: { message } }));
  },
);

async function main([first = '', second = '', folder = '']: readonly string[]): Promise<object> {
  switch (first) {
    case 'resolve': {
      const { client, reference } = registryOf(second);
      return { digest: await resolveImage(client, reference) };
    }
    case 'inspect': {
      const { client, reference } = registryOf(second);
      const { digest, config } = await inspectImage(client, reference);
      return { digest, platform: config.platform, config: settingsOf(config) };
    }
    case 'layers': {
      const { client, reference } = registryOf(second);
      return { blobs: await listLayers(client, reference) };
    }
    case 'download': {
      const { client, reference, only } = registryOf(second);
      await pullImage(client, reference, `${second}.pulled`, { progress: new PullProgress(console.error), only });
      return { downloaded: true };
    }
    case 'pull':
      return pull(second, folder);
    default:
      return unpackArchive(first, second);
  }
}

async function pull(request: string, folder: string): Promise<object> {
  const pulled = `${request}.pulled`;
  const { client, reference } = registryOf(request);
  try {
    const files = await pullImage(client, reference, pulled, { progress: new PullProgress(console.error) });
    return await unpack(files, folder);
  } finally {
    rmSync(pulled, { recursive: true, force: true });
  }
}

interface Registry {
  readonly client: RegistryClient;
  readonly reference: string;
  readonly only: ReadonlySet<string> | undefined;
}

function registryOf(request: string): Registry {
  const image = JSON.parse(readFileSync(request, 'utf8')) as ImagePull;
  if (image.caCertificates !== undefined) trust(image.caCertificates);
  const { reference, layers } = image;
  return {
    client: new RegistryClient(image, process.env[REGISTRY_PASSWORD]),
    reference,
    only: layers && new Set(layers),
  };
}

function trust(certificates: string): void {
  try {
    setDefaultCACertificates([...getCACertificates('default'), certificates]);
  } catch (error) {
    throw new ImageError(`from.caCertificates are not valid: ${(error as Error).message}.`);
  }
}

async function unpackArchive(archive: string, folder: string): Promise<object> {
  const spool = `${archive}.plain`;
  try {
    mkdirSync(folder, { mode: 0o755 });
    return await unpack(await ArchiveFile.open(archive, spool, maxBytesOf(folder)), folder);
  } finally {
    // There is none if the archive was not compressed.
    rmSync(spool, { force: true });
  }
}

async function unpack(files: ImageFiles, folder: string): Promise<object> {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const limits = { maxEntries: MAX_ENTRIES, maxBytes: maxBytesOf(folder) };
  const { config, ...counts } = await unpackImage(files, folder, limits);
  prepareRoot(folder, config.workdir);
  noteSettings(config);
  return { ...counts, platform: config.platform, config: settingsOf(config) };
}

function settingsOf({ env, user, workdir, shell, onBuild }: ImageConfig) {
  return { env, user, workdir, ...(shell && { shell }), onBuild };
}

/** Says which settings of the image have no effect on sandboxes. */
function noteSettings({ ofContainers, user, workdir }: ImageConfig): void {
  if (ofContainers.length > 0)
    console.error(
      `Without effect, because no sandbox starts a program of its image: ${printable(ofContainers.join('; '))}`,
    );
  const own = [user === '' ? '' : `USER ${user}`, workdir === '/' ? '' : `WORKDIR ${workdir}`].filter(Boolean);
  if (own.length > 0)
    console.error(`Sandboxes run as user in /workspace. The image has ${printable(own.join(' and '))}.`);
}

function printable(text: string): string {
  return text
    .replaceAll(/\p{Cc}/gu, ' ')
    .slice(0, NOTE_LENGTH)
    .toWellFormed();
}

function maxBytesOf(folder: string): number {
  const { bsize, bavail } = statfsSync(folder);
  return DISKS * bsize * bavail;
}
