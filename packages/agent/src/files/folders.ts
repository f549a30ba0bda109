import { codeOf, type FilePath, folderOf } from './file-path.ts';
import type { FileSystem } from './file-system.ts';

/** Makes `folder` and what is missing above it; the new ones, outermost first. */
export function makeFolders(folder: FilePath, system: FileSystem): FilePath[] {
  return system.run(() => {
    const missing: FilePath[] = [];
    for (let at = folder; system.findLink(at) === undefined; at = folderOf(at)) missing.unshift(at);
    // Code may have made one meanwhile.
    return missing.filter((path) => makeFolder(path, system));
  });
}

/** Takes back what `makeFolders` made, as far as nothing is in it. */
export function removeFolders(made: readonly FilePath[], system: FileSystem): void {
  for (const path of made.toReversed()) {
    try {
      system.rmdir(path);
    } catch {
      return;
    }
  }
}

/** False where it exists. */
function makeFolder(path: FilePath, system: FileSystem): boolean {
  try {
    system.mkdir(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}
