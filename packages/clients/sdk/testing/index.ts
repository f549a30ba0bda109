/** Support for tests of code that is built on the SDK. Shipped code does not import it. */
export * from './samples.ts';
export * from './scripted-sandbox.ts';
export * from './scripted-server.ts';
