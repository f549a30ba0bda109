export * from './archive-entry.ts';
export * from './archive-tree.ts';
export * from './compressed-tar.ts';
export * from './entry-name.ts';
export * from './read-tar.ts';
export * from './read-zip.ts';
export * from './tar-header.ts';
