import { makeApiKey } from '../src/platform/keys/api-key-format.ts';

/**
 * Bootstrap key of servers under test. It is a generated one: the hash of a key that a person chose takes a server 100
 * ms of processor time at each start.
 */
export const BOOTSTRAP_KEY = makeApiKey().key;
