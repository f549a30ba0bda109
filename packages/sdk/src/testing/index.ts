/** For tests of what is built on the SDK; nothing that ships imports it. */
export * from './samples.ts';
export * from './scripted-sandbox.ts';
export * from './scripted-server.ts';
