export * from './gateway-error.ts';
export type * from './held-connection.ts';
export * from './key-sources.ts';
export * from './loopback-client.ts';
export * from './read-json.ts';
export * from './translate-error.ts';
