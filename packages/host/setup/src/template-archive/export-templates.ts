import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive';
import { cachePaths, guestUse, recordUse, templateUse } from '@cloche/layout';
import { SetupError } from '../progress.ts';
import { type TemplateVersion, VERSION_FILES, versionFolder } from '../templates/cached-versions.ts';
import { type ArchivePart, LIST_BYTES, LIST_NAME, writeList } from './archive-list.ts';
import { packFolder } from './pack-folder.ts';

export interface ExportOptions {
  readonly cacheDir: string;
  readonly templates: readonly TemplateVersion[];
  /** Guest folder of this checkout. */
  readonly guestDir?: string;
  readonly signal?: AbortSignal;
  /** Called around the work on each part, with a function that takes its progress. */
  readonly step?: <Result>(title: string, work: (note: (text: string) => void) => Promise<Result>) => Promise<Result>;
}

/**
 * Writes an archive with template versions and guest files, from which `importTemplates` fills the cache of a machine
 * without registries. Replaces `file`, which is complete or not changed. The same contents always give the same bytes.
 *
 * @throws {SetupError} when the file cannot be written
 */
export async function exportTemplates(
  file: string,
  { cacheDir, templates, guestDir, signal, step = (_title, work) => work(() => undefined) }: ExportOptions,
): Promise<ArchivePart[]> {
  const partial = `${file}.partial-${process.pid}`;
  const handle = await open(partial, 'w').catch((error: NodeJS.ErrnoException) => {
    const remedy = 'Give a path in a folder that exists and has space.';
    throw new SetupError(`${file} cannot be written: ${error.code ?? error.message}.`, remedy, { cause: error });
  });
  try {
    const parts: ArchivePart[] = [];
    let at = TAR_BLOCK_BYTES + LIST_BYTES;
    const add = (title: string, folder: string, entries: readonly string[], name: string) =>
      step(title, async (note) => {
        let end = at + TAR_BLOCK_BYTES;
        const write = async (chunk: Buffer) => {
          await writeAt(handle, chunk, end);
          end += chunk.length;
        };
        const onBytes = (bytes: number) => note(megabytes(bytes));
        const packed = await packFolder(folder, entries, write, { onBytes, ...(signal && { signal }) });
        await writeAt(handle, headerOf(name, packed.sizeBytes), at);
        at = end + tarPadding(packed.sizeBytes);
        note(megabytes(packed.sizeBytes));
        return { name, ...packed };
      });
    const { usedDir } = cachePaths(cacheDir);
    for (const version of templates) {
      const { slug, digest } = version;
      // So that no start removes it meanwhile.
      recordUse(usedDir, templateUse(digest));
      const folder = versionFolder(version, cacheDir);
      const packed = await add(`template ${slug}`, folder, Object.values(VERSION_FILES), `${slug}.tar.zst`);
      parts.push({ kind: 'template', slug, digest, ...packed });
    }
    if (guestDir !== undefined) {
      const digest = basename(guestDir);
      recordUse(usedDir, guestUse(digest));
      parts.push({ kind: 'guest', digest, ...(await add('guest files', guestDir, ['.'], 'guest-files.tar.zst')) });
    }
    await writeAt(handle, Buffer.alloc(2 * TAR_BLOCK_BYTES), at);
    await writeAt(handle, Buffer.concat([headerOf(LIST_NAME, LIST_BYTES), writeList(parts)]), 0);
    await handle.sync();
    await rename(partial, file);
    return parts;
  } finally {
    await handle.close();
    await rm(partial, { force: true });
  }
}

/** Returns the names in an archive's list. */
export function partTitle(part: ArchivePart): string {
  return part.kind === 'guest' ? 'guest files' : `template ${part.slug}`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 10e6 ? 1 : 0)} MB`;
}

function headerOf(name: string, size: number): Buffer {
  return writeTarHeader({ name, flag: '0', mode: 0o644, size, mtime: 0, linkName: '' });
}

async function writeAt(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; )
    written += (await handle.write(bytes, written, bytes.length - written, position + written)).bytesWritten;
}
