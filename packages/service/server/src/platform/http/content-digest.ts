/** Checks the `Content-Digest` of a request body (RFC 9530). */
import { createHash, type Hash } from 'node:crypto';
import { Transform } from 'node:stream';
import { invalidRequest } from '../base/app-error.ts';

const FIELD = 'headers.content-digest';
/** A member of the dictionary in the field. */
const MEMBER = /^[ \t]*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):(?:;[^,]*)?[ \t]*$/;
/** Algorithms that are checked, and the bytes of their digests. The field may have others, which the RFC lets ignore. */
const ALGORITHMS = new Map([
  ['sha-256', { name: 'sha256', bytes: 32 }],
  ['sha-512', { name: 'sha512', bytes: 64 }],
]);

interface StatedDigest {
  readonly algorithm: string;
  readonly hash: Hash;
  readonly digest: Buffer;
}

/**
 * Returns a stream that passes the body on and checks the digests of a `Content-Digest` field. It holds the last chunk
 * back, so that a body with another digest fails before its end. Returns undefined if there is nothing to check.
 *
 * @throws AppError `invalid_request` for a malformed field
 */
export function digestCheckOf(field: string | undefined): ContentDigestCheck | undefined {
  if (field === undefined) return undefined;
  const stated = field.split(',').flatMap((member): StatedDigest[] => {
    const [, key = '', digest = ''] = MEMBER.exec(member) ?? [];
    if (key === '') throw malformed();
    const algorithm = ALGORITHMS.get(key);
    if (!algorithm) return [];
    const bytes = Buffer.from(digest, 'base64');
    if (bytes.length !== algorithm.bytes) throw malformed();
    return [{ algorithm: key, hash: createHash(algorithm.name), digest: bytes }];
  });
  return stated.length === 0 ? undefined : new ContentDigestCheck(stated);
}

export class ContentDigestCheck extends Transform {
  readonly #stated: readonly StatedDigest[];
  #held: Buffer | undefined;

  constructor(stated: readonly StatedDigest[]) {
    super();
    this.#stated = stated;
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null, data?: Buffer) => void): void {
    for (const { hash } of this.#stated) hash.update(chunk);
    const held = this.#held;
    this.#held = chunk;
    done(null, held);
  }

  override _flush(done: (error?: Error | null, data?: Buffer) => void): void {
    const wrong = this.#stated.find(({ hash, digest }) => !hash.digest().equals(digest));
    if (!wrong) {
      done(null, this.#held);
      return;
    }
    const message = `differs from the ${wrong.algorithm} of the body that arrived; send the body again`;
    done(invalidRequest({ path: FIELD, message }));
  }
}

function malformed() {
  const message = 'must be digests of the body such as sha-256=:<base64>: or sha-512=:<base64>:';
  return invalidRequest({ path: FIELD, message });
}
