import type { SandboxId } from '@cloche/contract';
import { bytesUpTo, contentTypeOf } from '@cloche/node-support';
import { type Cloche, ClocheError, Files } from '@cloche/sdk';
import type { FileContent } from './file-content.ts';
import { contentOf } from './file-content.ts';
import { artifactUri, fileUri, resourceAt } from './uris.ts';

/** Most bytes of a file that one answer holds. */
const READ_BYTES = 1024 * 1024;

/** Reads the resource with this URI. @throws {ClocheError} `invalid_request` if there is none of this form, and others */
export function readResource(cloche: Cloche, uri: string, signal: AbortSignal): Promise<FileContent> {
  const named = resourceAt(uri);
  return named.kind === 'artifact'
    ? readArtifact(cloche, named.artifactId, signal)
    : readFile(cloche, named.sandboxId, named.path, signal);
}

/** @throws {ClocheError} `payload_too_large` for a file of more than 1 MiB, and others */
export async function readFile(
  cloche: Cloche,
  sandboxId: SandboxId,
  path: string,
  signal: AbortSignal,
): Promise<FileContent> {
  const { body } = await new Files(cloche, sandboxId).stream(path, { signal });
  const bytes = await bytesOf(body, path, 'read a part of it with command_run');
  return contentOf(bytes, contentTypeOf(path), fileUri(sandboxId, path));
}

async function readArtifact(cloche: Cloche, artifactId: string, signal: AbortSignal): Promise<FileContent> {
  const { name, contentType, sizeBytes } = await cloche.artifacts.get(artifactId, { signal });
  const otherwise = 'download it from the link that artifact_get returns';
  if (sizeBytes > READ_BYTES) throw tooLarge(name, otherwise);
  const { body } = await cloche.artifacts.download(artifactId, { signal });
  const bytes = body ? await bytesOf(body, name, otherwise) : new Uint8Array();
  return contentOf(bytes, contentType, artifactUri(artifactId));
}

/** Counts while it reads: a program in the sandbox may replace the file at any moment. */
async function bytesOf(body: ReadableStream<Uint8Array>, name: string, otherwise: string): Promise<Uint8Array> {
  const bytes = await bytesUpTo(READ_BYTES, body);
  if (!bytes) throw tooLarge(name, otherwise);
  return bytes;
}

function tooLarge(name: string, otherwise: string): ClocheError {
  return new ClocheError('payload_too_large', `${name} has more than ${READ_BYTES} bytes; ${otherwise}.`);
}
