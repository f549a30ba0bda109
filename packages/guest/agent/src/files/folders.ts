import { codeOf } from '../base/error-code.ts';
import { type FilePath, folderOf } from './file-path.ts';
import type { FileSystem } from './file-system.ts';

/** Creates `folder` and its missing parents. Returns the new ones, outermost first. */
export function makeFolders(folder: FilePath, system: FileSystem): FilePath[] {
  return system.run(() => {
    const missing: FilePath[] = [];
    for (let at = folder; system.findLink(at) === undefined; at = folderOf(at)) missing.unshift(at);
    // Code of the sandbox can have created one meanwhile.
    return missing.filter((path) => makeFolder(path, system));
  });
}

/** Removes what `makeFolders` created, except folders that are not empty. */
export function removeFolders(made: readonly FilePath[], system: FileSystem): void {
  for (const path of made.toReversed()) {
    try {
      system.rmdir(path);
    } catch {
      return;
    }
  }
}

/** Returns false if the folder exists. */
function makeFolder(path: FilePath, system: FileSystem): boolean {
  try {
    system.mkdir(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}
