import { randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** Makes identifiers, injected so that tests can name theirs. */
export interface IdSource {
  /** Returns `prefix` followed by 20 characters, which carry 100 random bits. */
  next<Prefix extends string>(prefix: Prefix): `${Prefix}${string}`;
}

const ID_BYTES = 20;
/** Random bytes, drawn for many ids at once because a draw costs about the same for one id. Each byte is used once. */
const drawn = Buffer.alloc(200 * ID_BYTES);
let used = drawn.length;

export const randomIds: IdSource = {
  next(prefix) {
    if (used === drawn.length) {
      randomFillSync(drawn);
      used = 0;
    }
    let id = '';
    for (const end = used + ID_BYTES; used < end; used++) id += ALPHABET[(drawn[used] ?? 0) & 31];
    return `${prefix}${id}`;
  },
};
