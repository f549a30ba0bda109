/** `@cloche/sdk/node`: everything of `@cloche/sdk`, with files and directories of the disk. For Node, Bun and Deno. */
export * from './index.ts';
export { type PackDirectoryOptions, type PackedDirectory, packDirectory } from './local-directory.ts';
export { fileBytes, type SaveFileOptions, saveFile } from './local-file.ts';
