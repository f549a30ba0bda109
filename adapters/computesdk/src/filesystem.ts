import type { Sandbox } from '@cloche/sdk';
import type { FileEntry } from '@computesdk/provider';

/** The files of a sandbox. Relative paths are below `/workspace`. */
export const filesystem = {
  readFile: (sandbox: Sandbox, path: string): Promise<string> => sandbox.files.readText(path),

  async writeFile(sandbox: Sandbox, path: string, content: string): Promise<void> {
    await sandbox.files.write(path, content);
  },

  async mkdir(sandbox: Sandbox, path: string): Promise<void> {
    await sandbox.files.makeDirectory(path);
  },

  async readdir(sandbox: Sandbox, path: string): Promise<FileEntry[]> {
    return (await sandbox.files.list(path)).map(({ name, type, sizeBytes, modifiedAt }) => ({
      name,
      // ComputeSDK has these two types only.
      type: type === 'directory' ? 'directory' : 'file',
      size: sizeBytes,
      modified: new Date(modifiedAt),
    }));
  },

  exists: (sandbox: Sandbox, path: string): Promise<boolean> => sandbox.files.exists(path),

  /** Removes a directory with everything in it. */
  async remove(sandbox: Sandbox, path: string): Promise<void> {
    await sandbox.files.remove(path, { recursive: true });
  },
};
