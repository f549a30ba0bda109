export * from './cache-use.ts';
export * from './disk-reserve.ts';
export * from './paths.ts';
