export * from './cache-use.ts';
export * from './commands.ts';
export * from './disk-reserve.ts';
export * from './host-files.mjs';
export * from './machine-resources.ts';
export * from './paths.ts';
