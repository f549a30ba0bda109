import { ImageError } from '../read/image-error.ts';
import { platformOf } from '../read/read-image.ts';
import { asDigest, asList, asObject, type Json, shortened } from '../read/read-json.ts';

export interface ChosenManifest {
  readonly digest: string;
  readonly size: unknown;
}

/**
 * Returns the manifest of an index for a platform. Of several, takes the one for all its processors, as the first.
 *
 * @throws {ImageError} if there is none
 */
export function chooseManifest(index: Json, platform: string, image: string): ChosenManifest {
  const descriptors = asList(index.manifests, 'manifests').map((each) => asObject(each, 'manifests'));
  const fitting = descriptors.filter((each) => [platform, undefined].includes(platformOf(each)));
  const chosen = fitting.find((each) => isForAll(each)) ?? fitting[0];
  if (chosen) return { digest: asDigest(chosen.digest), size: chosen.size };
  const others = new Set(descriptors.map(platformOf).filter((each) => each !== 'unknown/unknown'));
  const only = others.size === 0 ? '' : `, only for ${[...others].slice(0, 20).map(shortened).join(', ')}`;
  throw new ImageError(`${image} has no image for "${platform}"${only}.`);
}

/** Newer processors can have manifests of their own. */
function isForAll({ platform }: Json): boolean {
  const variant = (platform as Json | null | undefined)?.variant;
  return variant === undefined || variant === '' || variant === 'v8';
}
