import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';

/** Cost of 32 MiB and about 100 ms for each guess. The server pays it once at its start, never for a request. */
const COST: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const NAME = 'scrypt-15-8-1';

/** Returns a salted hash of a key that a person chose and that a dictionary may contain. */
export async function hashChosenKey(key: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  return [NAME, salt.toString('base64url'), (await derive(key, salt)).toString('base64url')].join(':');
}

/** Whether `stored` is a hash of `key` made by `hashChosenKey`. */
export async function isHashOfChosenKey(key: string, stored: string): Promise<boolean> {
  const [name, salt = '', hash = ''] = stored.split(':');
  if (name !== NAME) return false;
  const expected = Buffer.from(hash, 'base64url');
  return expected.length === HASH_BYTES && timingSafeEqual(expected, await derive(key, Buffer.from(salt, 'base64url')));
}

function derive(key: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(key, salt, HASH_BYTES, COST, (error, hash) => (error ? reject(error) : resolve(hash)));
  });
}
