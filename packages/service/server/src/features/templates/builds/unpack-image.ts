/** How a sandbox unpacks an image, and what its program prints: hostile input, checked. */
import { type ImageSettings, LIMITS, type SecretId } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import { type AgentCommandEvent, type ImagePull, REGISTRY_PASSWORD } from '@cloche/protocol';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { PlannedPull } from '../../template-catalogue/recipe/plan.ts';
import type { LayerBlob } from '../layers/image-layer-repository.ts';

export const ARCHIVE = '/tmp/image.tar';
/** Folder that a capture takes as the root. */
export const IMAGE_ROOT = '/image';
/** Program of the guest folder. */
export const UNPACK = ['/opt/cloche/bin/node', '--disable-sigusr1', '/opt/cloche/unpack-image.cjs'];
export const UNPACKED_BYTES = 1024 * 1024;
/** Most bytes of the lines about the download of an image. */
export const NOTES_BYTES = 4 * UNPACKED_BYTES;
/** File with what `UNPACK pull` and `UNPACK resolve` download. */
export const REQUEST = '/tmp/image.json';
/** Folder of the downloaded layers in the sandbox. */
const BLOBS = `${REQUEST}.pulled/blobs`;
/** Most values in what the program prints: the variables of an image, and more. */
const MAX_VALUES = 10_000;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;

const Digest = Type.String({ pattern: '^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$' });
const unpacked = Compile(
  Type.Object({
    digest: Type.Optional(Digest),
    blobs: Type.Optional(
      Type.Array(
        Type.Object({ digest: Digest, size: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }) }),
        {
          maxItems: 1000,
        },
      ),
    ),
    config: Type.Optional(
      Type.Object({
        env: Type.Record(Type.String(), Type.String()),
        user: Type.Optional(Type.String({ maxLength: LIMITS.imageUserLength })),
        workdir: Type.Optional(Type.String({ maxLength: LIMITS.cwdLength })),
        shell: Type.Optional(Type.Array(Type.String(), { maxItems: 64 })),
        onBuild: Type.Optional(Type.Array(Type.String(), { maxItems: 128 })),
      }),
    ),
    error: Type.Optional(Type.Object({ message: Type.String() })),
  }),
);

/** The digest and the settings of an image of a registry. */
export type InspectedImage = Omit<ImageSettings, 'name'>;

export interface Unpacked {
  readonly env?: Record<string, string>;
  readonly digest?: string;
  readonly layers?: readonly LayerBlob[];
  readonly settings?: Pick<ImageSettings, 'user' | 'workdir' | 'shell' | 'onBuild'>;
  readonly message?: string;
}

/** Passes on what the program prints to standard error, up to a limit, until it has ended. */
export async function forwardErrors(
  events: AsyncIterable<AgentCommandEvent>,
  onLine: (text: string) => Promise<void>,
): Promise<void> {
  let bytes = 0;
  for await (const event of events) {
    if (event.type === 'exit') return;
    const { stream, data } = event.entry;
    bytes += Buffer.byteLength(data);
    if (stream === 'stderr' && bytes <= NOTES_BYTES) await onLine(data);
  }
}

/** Returns the file of a layer in the sandbox that downloads it. */
export function layerPath({ digest }: LayerBlob): string {
  return `${BLOBS}/${digest.replace(':', '/')}`;
}

/**
 * Returns the content of `REQUEST` for an image. A digest takes precedence over the tag.
 *
 * @param layers digests of the layers to download; by default, all that the sandbox lacks
 */
export function pullRequest(image: PlannedPull, layers?: readonly LayerBlob[]): Buffer {
  const { registry, repository, tag, digest, credentials, caCertificates } = image;
  const request: ImagePull = {
    registry,
    repository,
    reference: digest ?? tag ?? 'latest',
    ...(credentials && { username: credentials.username }),
    ...(caCertificates !== undefined && { caCertificates }),
    ...(layers && { layers: layers.map((layer) => layer.digest) }),
  };
  return Buffer.from(JSON.stringify(request));
}

/** Returns the secret that a sandbox needs in order to download an image, by environment variable. */
export function secretsOf({ credentials }: PlannedPull): Record<string, SecretId> | undefined {
  return credentials && { [REGISTRY_PASSWORD]: credentials.secretId };
}

/**
 * Returns the settings of the image, or its digest, or both, or why it was refused. Variables that no sandbox can have
 * are left out.
 */
export function parseUnpacked(stdout: string): Unpacked {
  let printed: unknown;
  try {
    printed = parsePlainJson(stdout, MAX_VALUES);
  } catch {
    return {};
  }
  if (!unpacked.Check(printed)) return {};
  const { config, digest, blobs, error } = printed;
  if (error) return { message: error.message.slice(0, 1000).toWellFormed() };
  if (blobs) return { layers: blobs.map((blob) => ({ digest: blob.digest, sizeBytes: blob.size })) };
  const ofDigest = digest === undefined ? {} : { digest };
  if (!config) return digest === undefined ? { env: {} } : ofDigest;
  const { user = '', workdir = '/', shell, onBuild = [] } = config;
  const entries = Object.entries(config.env).filter(
    ([name, value]) => NAME.test(name) && value.length <= LIMITS.templateEnvValueLength && !value.includes('\0'),
  );
  const env = Object.fromEntries(entries.slice(0, LIMITS.envEntries));
  return { ...ofDigest, env, settings: { user, workdir, ...(shell && { shell }), onBuild } };
}
