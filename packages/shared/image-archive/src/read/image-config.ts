import { ImageError } from './image-error.ts';
import { asDigest, asList, asObject, type Json, shortened } from './read-json.ts';

const MAX_LAYERS = 1000;
const MAX_VARIABLES = 1000;
const MAX_TEXT = 32 * 1024;
/** Most words of `SHELL`, and most instructions of `ONBUILD`. */
const MAX_WORDS = 64;
const MAX_TRIGGERS = 128;
/** Characters of a setting that a message shows. */
const SHOWN_LENGTH = 200;

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
  /** Program and arguments in front of the lines of `RUN`; undefined for the usual shell. */
  readonly shell: readonly string[] | undefined;
  /** Instructions that a Dockerfile has after its `FROM` of this image. */
  readonly onBuild: readonly string[];
  /** Settings that say how a container starts, as instructions of a Dockerfile. */
  readonly ofContainers: readonly string[];
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
    shell: readTexts(config.Shell, 'Shell', MAX_WORDS),
    onBuild: readTexts(config.OnBuild, 'OnBuild', MAX_TRIGGERS) ?? [],
    ofContainers: containerSettings(config),
    diffIds,
  };
}

/** Returns undefined for a list that is empty or missing. */
function readTexts(value: unknown, what: string, most: number): string[] | undefined {
  const list = value === undefined || value === null ? [] : asList(value, what);
  if (list.length > most) throw new ImageError(`The image has more than ${most} entries of ${what}.`);
  return list.length === 0 ? undefined : list.map((each) => asText(each, what));
}

function containerSettings({ Entrypoint, Cmd, ExposedPorts, Volumes, StopSignal, Healthcheck }: Json): string[] {
  const found: readonly [instruction: string, value: unknown][] = [
    ['ENTRYPOINT', Entrypoint],
    ['CMD', Cmd],
    ['EXPOSE', namesOf(ExposedPorts)],
    ['VOLUME', namesOf(Volumes)],
    ['STOPSIGNAL', StopSignal],
    ['HEALTHCHECK', (Healthcheck as Json | null | undefined)?.Test],
  ];
  return found.flatMap(([instruction, value]) => {
    const words = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === 'string' && each !== '');
    if (words.length === 0) return [];
    return [`${instruction} ${words.join(' ').slice(0, SHOWN_LENGTH).toWellFormed()}`];
  });
}

function namesOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null ? Object.keys(value) : [];
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
