import { randomBytes } from 'node:crypto';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** Makes identifiers, injected so that tests can name theirs. */
export interface IdSource {
  /** `prefix` and 20 characters of 100 random bits. */
  next<Prefix extends string>(prefix: Prefix): `${Prefix}${string}`;
}

export const randomIds: IdSource = {
  next(prefix) {
    let id = '';
    for (const byte of randomBytes(20)) id += ALPHABET[byte & 31];
    return `${prefix}${id}`;
  },
};
