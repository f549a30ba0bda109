/** Names of images in registries, as Docker reads them: `[registry/]repository[:tag][@digest]`. */
import { LIMITS } from './limits.ts';

/** An image of a registry. A digest, where there is one, counts before the tag. */
export interface ImageName {
  /** Host, with a port where one is named. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: string;
}

const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const REGISTRY = new RegExp(`^${LABEL}(?:\\.${LABEL})*(?::[0-9]{1,5})?$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const DIGEST = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/;
/** Longest name of a repository with its registry, without tag and digest. */
const NAME_LENGTH = 255;

/** Registry of names that name none, and where its images without a namespace are. */
export const DOCKER_HUB = 'docker.io';
const DOCKER_HUB_ALIASES = new Set([DOCKER_HUB, 'index.docker.io']);
const OFFICIAL = 'library';

/** Whether a text can only be the name of an image, since slugs and ids of templates have none of these characters. */
export function isImageName(text: string): boolean {
  return /[:/@.]/.test(text);
}

/** Whether a text is the name of a registry: a host, with a port where one is named. */
export function isRegistry(text: string): boolean {
  const [, port = '443'] = text.split(':');
  return text.length <= NAME_LENGTH && REGISTRY.test(text) && Number(port) >= 1 && Number(port) <= 65_535;
}

/**
 * Reads the name of an image. Returns undefined for one that is not well-formed.
 *
 * @param defaultRegistry registry of names that name none
 */
export function parseImageName(text: string, defaultRegistry: string = DOCKER_HUB): ImageName | undefined {
  if (text.length > LIMITS.imageNameLength) return undefined;
  const [named = '', digest, ...more] = text.split('@');
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))) return undefined;
  const slash = named.indexOf('/');
  const first = named.slice(0, Math.max(0, slash));
  const hasRegistry = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  const [path = '', tag, ...others] = (hasRegistry ? named.slice(slash + 1) : named).split(':');
  if (others.length > 0 || (tag !== undefined && !TAG.test(tag))) return undefined;
  const given = hasRegistry ? first : defaultRegistry;
  const registry = DOCKER_HUB_ALIASES.has(given) ? DOCKER_HUB : given;
  if (!isRegistry(registry)) return undefined;
  // Mirrors of Docker Hub have its official images in the same place.
  const isOfficial = !path.includes('/') && (registry === DOCKER_HUB || !hasRegistry);
  const repository = isOfficial ? `${OFFICIAL}/${path}` : path;
  if (!repository.split('/').every((part) => COMPONENT.test(part))) return undefined;
  if (registry.length + 1 + repository.length > NAME_LENGTH) return undefined;
  if (digest !== undefined) return { registry, repository, ...(tag !== undefined && { tag }), digest };
  return { registry, repository, tag: tag ?? 'latest' };
}

/** Returns the whole name of an image, as `parseImageName` reads it. */
export function formatImageName({ registry, repository, tag, digest }: ImageName): string {
  const ofTag = tag === undefined ? '' : `:${tag}`;
  return `${registry}/${repository}${ofTag}${digest === undefined ? '' : `@${digest}`}`;
}
