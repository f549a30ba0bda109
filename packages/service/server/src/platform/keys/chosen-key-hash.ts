import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';

/** Cost of 32 MiB and about 100 ms for each guess. The server pays it once at its start, never for a request. */
const COST: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const SECRET_BYTES = 32;
const NAME = 'scrypt-15-8-1';

export interface ChosenKeyHash {
  /** A salted hash, for the database. */
  readonly stored: string;
  /** A secret that is as slow to guess as the key, and that is never stored. */
  readonly sealingSecret: Buffer;
}

/** Hashes a key that a person chose and that a dictionary may contain. */
export async function hashChosenKey(key: string): Promise<ChosenKeyHash> {
  return hashWith(key, randomBytes(SALT_BYTES));
}

/** Returns the hash of `key` if `stored` is the hash that `hashChosenKey` made of it. */
export async function findHashOfChosenKey(key: string, stored: string): Promise<ChosenKeyHash | undefined> {
  const [name, salt = '', hash = ''] = stored.split(':');
  if (name !== NAME || Buffer.from(hash, 'base64url').length !== HASH_BYTES) return undefined;
  const computed = await hashWith(key, Buffer.from(salt, 'base64url'));
  const isSame =
    computed.stored.length === stored.length && timingSafeEqual(Buffer.from(computed.stored), Buffer.from(stored));
  return isSame ? computed : undefined;
}

async function hashWith(key: string, salt: Buffer): Promise<ChosenKeyHash> {
  const derived = await derive(key, salt);
  const hash = derived.subarray(0, HASH_BYTES).toString('base64url');
  return { stored: [NAME, salt.toString('base64url'), hash].join(':'), sealingSecret: derived.subarray(HASH_BYTES) };
}

function derive(key: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(key, salt, HASH_BYTES + SECRET_BYTES, COST, (error, hash) => (error ? reject(error) : resolve(hash)));
  });
}
