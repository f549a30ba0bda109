import { type Artifact, type FileEntry, LIMITS, type SandboxId } from '@cloche/contract';
import { contentTypeOf } from '@cloche/node-support';
import { type Cloche, isClocheError } from '@cloche/sdk';
import { artifactUri, fileUri } from './uris.ts';

/** Most files of a sandbox, most artifacts and most suggestions of one answer. Clients get no more suggestions. */
const LISTED = 100;
/** Levels of directories of the workspace that the list shows. */
const DEPTH = 3;

/** Returns files in the workspace of a sandbox as resources. */
export async function listedFiles(cloche: Cloche, sandboxId: string | undefined, signal: AbortSignal) {
  if (sandboxId === undefined) return [];
  const query = { path: '/workspace', depth: DEPTH, limit: LISTED };
  const files = await allowed<FileEntry>(
    cloche.call('listFiles', { params: { sandboxId: sandboxId as SandboxId }, query, signal }),
  );
  return files
    .filter(({ type }) => type === 'file')
    .map(({ path, name, sizeBytes }) => {
      return { uri: fileUri(sandboxId, path), name, mimeType: contentTypeOf(name), size: sizeBytes, description: path };
    });
}

/** Returns the newest artifacts as resources. */
export async function listedArtifacts(cloche: Cloche, signal: AbortSignal) {
  return (await newestArtifacts(cloche, signal)).map(({ id, name, contentType, sizeBytes, sandboxId }) => {
    const description = `Artifact ${id} of ${sandboxId}`;
    return { uri: artifactUri(id), name, mimeType: contentType, size: sizeBytes, description };
  });
}

/** Returns ids of sandboxes that begin with this text. */
export async function sandboxesFrom(cloche: Cloche, begun: string): Promise<string[]> {
  const found = await allowed(cloche.call('listSandboxes', { query: { limit: LIMITS.listPage } }));
  return found.map(({ id }) => id).filter((id) => id.startsWith(begun));
}

/** Returns ids of artifacts that begin with this text. */
export async function artifactsFrom(cloche: Cloche, begun: string): Promise<string[]> {
  return (await newestArtifacts(cloche)).map(({ id }) => id).filter((id) => id.startsWith(begun));
}

/** Returns paths of a sandbox, without their first slash, that begin with this text. */
export async function pathsFrom(cloche: Cloche, sandboxId: string | undefined, begun: string): Promise<string[]> {
  if (!sandboxId) return [];
  const folder = `/${begun.slice(0, begun.lastIndexOf('/') + 1)}`;
  const query = { path: folder, limit: LIMITS.listPage };
  const found = await allowed<FileEntry>(
    cloche.call('listFiles', { params: { sandboxId: sandboxId as SandboxId }, query }),
  );
  return found
    .map(({ path, type }) => path.slice(1) + (type === 'directory' ? '/' : ''))
    .filter((path) => path.startsWith(begun));
}

async function newestArtifacts(cloche: Cloche, signal?: AbortSignal): Promise<readonly Artifact[]> {
  return allowed<Artifact>(cloche.call('listArtifacts', { query: { limit: LISTED }, ...(signal && { signal }) }));
}

/** Returns nothing of what the key must not list, or of what has ended. */
async function allowed<T>(page: Promise<{ readonly data: readonly T[] }>): Promise<readonly T[]> {
  try {
    return (await page).data;
  } catch (error) {
    if (isClocheError(error)) return [];
    throw error;
  }
}
