/** How a sandbox unpacks an image, and what its program prints: hostile input, checked. */
import { LIMITS } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';

export const ARCHIVE = '/tmp/image.tar';
/** Folder that a capture takes as the root. */
export const IMAGE_ROOT = '/image';
/** Program of the guest folder. */
export const UNPACK = ['/opt/cloche/bin/node', '--disable-sigusr1', '/opt/cloche/unpack-image.cjs'];
export const UNPACKED_BYTES = 1024 * 1024;
/** Most values in what the program prints: the variables of an image, and more. */
const MAX_VALUES = 10_000;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;

const unpacked = Compile(
  Type.Object({
    config: Type.Optional(Type.Object({ env: Type.Record(Type.String(), Type.String()) })),
    error: Type.Optional(Type.Object({ message: Type.String() })),
  }),
);

/** Returns the variables of the image, or why it was refused. Variables that no sandbox can have are left out. */
export function parseUnpacked(stdout: string): { env?: Record<string, string>; message?: string } {
  let printed: unknown;
  try {
    printed = parsePlainJson(stdout, MAX_VALUES);
  } catch {
    return {};
  }
  if (!unpacked.Check(printed)) return {};
  const { config, error } = printed;
  if (error) return { message: error.message.slice(0, 1000).toWellFormed() };
  const entries = Object.entries(config?.env ?? {}).filter(
    ([name, value]) => NAME.test(name) && value.length <= LIMITS.templateEnvValueLength && !value.includes('\0'),
  );
  return { env: Object.fromEntries(entries.slice(0, LIMITS.envEntries)) };
}
