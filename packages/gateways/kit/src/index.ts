export * from './loopback-client.ts';
