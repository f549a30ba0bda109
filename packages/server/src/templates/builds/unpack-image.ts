/** How a sandbox unpacks an image, and what its program prints: hostile input, checked. */
import { LIMITS, type SecretId } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import { type ImagePull, REGISTRY_PASSWORD } from '@cloche/protocol';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { PlannedPull } from '../recipe/plan.ts';

export const ARCHIVE = '/tmp/image.tar';
/** Folder that a capture takes as the root. */
export const IMAGE_ROOT = '/image';
/** Program of the guest folder. */
export const UNPACK = ['/opt/cloche/bin/node', '--disable-sigusr1', '/opt/cloche/unpack-image.cjs'];
export const UNPACKED_BYTES = 1024 * 1024;
/** File with what `UNPACK pull` and `UNPACK resolve` download. */
export const REQUEST = '/tmp/image.json';
/** Most values in what the program prints: the variables of an image, and more. */
const MAX_VALUES = 10_000;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;

const unpacked = Compile(
  Type.Object({
    digest: Type.Optional(Type.String({ pattern: '^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$' })),
    config: Type.Optional(Type.Object({ env: Type.Record(Type.String(), Type.String()) })),
    error: Type.Optional(Type.Object({ message: Type.String() })),
  }),
);

/** Returns the content of `REQUEST` for an image, with the tag or the digest that counts. */
export function pullRequest({ registry, repository, tag, digest, credentials, caCertificates }: PlannedPull): Buffer {
  const request: ImagePull = {
    registry,
    repository,
    reference: digest ?? tag ?? 'latest',
    ...(credentials && { username: credentials.username }),
    ...(caCertificates !== undefined && { caCertificates }),
  };
  return Buffer.from(JSON.stringify(request));
}

/** Returns the secret that a sandbox needs in order to download an image, by environment variable. */
export function secretsOf({ credentials }: PlannedPull): Record<string, SecretId> | undefined {
  return credentials && { [REGISTRY_PASSWORD]: credentials.secretId };
}

/**
 * Returns the variables of the image, or its digest, or why it was refused. Variables that no sandbox can have are left
 * out.
 */
export function parseUnpacked(stdout: string): { env?: Record<string, string>; digest?: string; message?: string } {
  let printed: unknown;
  try {
    printed = parsePlainJson(stdout, MAX_VALUES);
  } catch {
    return {};
  }
  if (!unpacked.Check(printed)) return {};
  const { config, digest, error } = printed;
  if (error) return { message: error.message.slice(0, 1000).toWellFormed() };
  if (digest !== undefined) return { digest };
  const entries = Object.entries(config?.env ?? {}).filter(
    ([name, value]) => NAME.test(name) && value.length <= LIMITS.templateEnvValueLength && !value.includes('\0'),
  );
  return { env: Object.fromEntries(entries.slice(0, LIMITS.envEntries)) };
}
