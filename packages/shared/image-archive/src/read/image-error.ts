/** An image archive that cannot be used. The message says why, for its author: a sentence. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  readonly code = 'bad_image';
}
