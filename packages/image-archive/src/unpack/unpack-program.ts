/**
 * A program that root runs inside a sandbox. Prints one line of JSON: the result, or `{ error: { message } }` and exit
 * code 1.
 *
 * - `node unpack-image.cjs ARCHIVE FOLDER` unpacks an untrusted image into a folder that does not exist yet.
 * - `node unpack-image.cjs pull REQUEST FOLDER` downloads it first. The file REQUEST has an `ImagePull`.
 * - `node unpack-image.cjs resolve REQUEST` prints the digest that the image has in its registry.
 */
import { mkdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { type ImagePull, REGISTRY_PASSWORD } from '@cloche/protocol';
import { ArchiveFile } from '../read/archive-file.ts';
import { ImageError } from '../read/image-error.ts';
import type { ImageFiles } from '../read/image-files.ts';
import { pullImage, resolveImage } from '../registry/pull-image.ts';
import { RegistryClient } from '../registry/registry-client.ts';
import { prepareRoot } from './prepare-root.ts';
import { unpackImage } from './unpack-image.ts';

const MAX_ENTRIES = 1_000_000;
/** Layers may replace each other's files, so all together can be larger than the disk. */
const DISKS = 4;

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
  if (first === 'resolve') {
    const { client, reference } = registryOf(second);
    return { digest: await resolveImage(client, reference) };
  }
  if (first !== 'pull') return unpackArchive(first, second);
  const pulled = `${second}.pulled`;
  const { client, reference } = registryOf(second);
  try {
    return await unpack(await pullImage(client, reference, pulled), folder);
  } finally {
    rmSync(pulled, { recursive: true, force: true });
  }
}

function registryOf(request: string): { client: RegistryClient; reference: string } {
  const image = JSON.parse(readFileSync(request, 'utf8')) as ImagePull;
  if (image.caCertificates !== undefined) trust(image.caCertificates);
  return { client: new RegistryClient(image, process.env[REGISTRY_PASSWORD]), reference: image.reference };
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
  const { platform, env, user, workdir } = config;
  return { ...counts, platform, config: { env, user, workdir } };
}

function maxBytesOf(folder: string): number {
  const { bsize, bavail } = statfsSync(folder);
  return DISKS * bsize * bavail;
}
