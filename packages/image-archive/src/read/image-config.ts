import { ImageError } from './image-error.ts';
import { asDigest, asList, asObject, type Json, shortened } from './read-json.ts';

const MAX_LAYERS = 1000;
const MAX_VARIABLES = 1000;
const MAX_TEXT = 32 * 1024;

/** Names of architectures in images, by those of Node.js. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** The settings of an image that count in a sandbox. */
export interface ImageConfig {
  readonly platform: string;
  readonly env: Readonly<Record<string, string>>;
  /** User as the image names it; empty for root. */
  readonly user: string;
  /** Absolute path. */
  readonly workdir: string;
  /** SHA-256 of each layer, decompressed. */
  readonly diffIds: readonly string[];
}

/** Returns the platform of this host in the form of images, such as `linux/amd64`. */
export function ownPlatform(): string {
  return `linux/${ARCHITECTURES[process.arch] ?? process.arch}`;
}

/** Reads the configuration of an image. @throws {ImageError} */
export function readImageConfig(json: Json): ImageConfig {
  const config = json.config === undefined || json.config === null ? {} : asObject(json.config, 'config');
  const rootfs = asObject(json.rootfs, 'rootfs');
  const diffIds = asList(rootfs.diff_ids, 'rootfs.diff_ids').map(asDigest);
  if (diffIds.length > MAX_LAYERS) throw new ImageError(`The image has more than ${MAX_LAYERS} layers.`);
  const workdir = asText(config.WorkingDir ?? '', 'WorkingDir');
  return {
    platform: `${asText(json.os ?? '', 'os')}/${asText(json.architecture ?? '', 'architecture')}`,
    env: readVariables(config.Env),
    user: asText(config.User ?? '', 'User'),
    workdir: workdir.startsWith('/') ? workdir : '/',
    diffIds,
  };
}

function readVariables(value: unknown): Record<string, string> {
  const list = value === undefined || value === null ? [] : asList(value, 'Env');
  if (list.length > MAX_VARIABLES) throw new ImageError(`The image sets more than ${MAX_VARIABLES} variables.`);
  const entries = list.map((each) => /^([^=]+)=(.*)$/s.exec(asText(each, 'Env')));
  return Object.fromEntries(entries.flatMap((entry) => (entry ? [[entry[1], entry[2]]] : [])));
}

function asText(value: unknown, what: string): string {
  if (typeof value === 'string' && value.length <= MAX_TEXT && !value.includes('\0')) return value;
  throw new ImageError(`${what} of the image is not a valid text: ${shortened(value)}.`);
}
