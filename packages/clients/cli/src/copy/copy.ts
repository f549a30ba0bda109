import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { FileUser } from '@cloche/contract';
import type { Cloche, Files } from '@cloche/sdk';
import { isClocheError } from '@cloche/sdk';
import { CliError, UsageError } from '../cli-error.ts';
import type { Session } from '../session.ts';
import { standardInput } from '../standard-input.ts';
import type { Output } from '../terminal/terminal.ts';
import { TransferBar } from '../terminal/transfer-bar.ts';
import { type Endpoint, joinLocal, joinSandbox, meansContent, nameOf } from './endpoint.ts';
import { packLocal } from './pack-local.ts';
import { saveFile, writeOut } from './save-file.ts';
import { unpackLocal } from './unpack-local.ts';

/** Options for each file operation of the copy. */
interface Calls {
  readonly signal: AbortSignal;
  readonly user?: FileUser;
}

export interface Copied {
  readonly to: string;
  readonly bytes: number;
}

type LocalSide = Extract<Endpoint, { kind: 'local' }>;
type SandboxSide = Extract<Endpoint, { kind: 'sandbox' }>;

/** Copies a file or a whole directory, as `cp -r` does. */
export async function copy(
  session: Session,
  cloche: Cloche,
  from: Endpoint,
  to: Endpoint,
  calls: Calls,
): Promise<Copied> {
  const { signal } = calls;
  const name = String(nameOf(from.kind === 'standard' ? to : from));
  const bar = TransferBar.beside(session.terminal, name, { isStandard: to.kind === 'standard' });
  const filesOf = async ({ sandboxId }: SandboxSide) => (await cloche.sandboxes.get(sandboxId, { signal })).files;
  if (to.kind === 'sandbox') {
    const target = await filesOf(to);
    if (from.kind === 'sandbox') return between(await filesOf(from), from, target, to, bar, calls);
    if (from.kind === 'standard') return put(target, to.path, standardInput(), undefined, bar, calls);
    return upload(from, target, to, bar, calls);
  }
  if (from.kind !== 'sandbox') throw new UsageError('One side must be in a sandbox, such as sbx_…:/workspace/file.');
  return download(await filesOf(from), from, to, bar, session.terminal.out, calls);
}

async function upload(from: LocalSide, target: Files, to: SandboxSide, bar: TransferBar, calls: Calls) {
  const source = await stat(from.path).catch((error: NodeJS.ErrnoException) => {
    throw new CliError(
      `${from.path} cannot be read: ${error.code === 'ENOENT' ? 'it does not exist' : error.message}.`,
    );
  });
  const path = await targetPath(target, to.path, from, source.isDirectory(), calls);
  if (!source.isDirectory()) {
    const content = createReadStream(from.path);
    // Its reader learns of an error, also of one before it reads.
    content.on('error', () => undefined);
    return put(target, path, content, { sizeBytes: source.size, mode: source.mode }, bar, calls);
  }
  await target.unpack(path, bar.count(packLocal(from.path)), calls);
  return { to: path, bytes: bar.bytes };
}

async function put(
  target: Files,
  path: string,
  source: AsyncIterable<Uint8Array>,
  known: { sizeBytes: number; mode: number } | undefined,
  bar: TransferBar,
  calls: Calls,
): Promise<Copied> {
  // Only the execute permission is copied; other permissions get the service's defaults.
  const mode = known && known.mode & 0o100 ? { mode: 0o755 } : {};
  await target.write(path, bar.count(source, known?.sizeBytes), { ...mode, ...calls });
  return { to: path, bytes: bar.bytes };
}

async function download(
  source: Files,
  from: SandboxSide,
  to: Exclude<Endpoint, SandboxSide>,
  bar: TransferBar,
  out: Output,
  calls: Calls,
): Promise<Copied> {
  const isFolder = await isDirectory(source, from.path, calls);
  if (to.kind === 'standard') {
    const { body, sizeBytes } = isFolder
      ? await source.archive(from.path, { format: 'tar', ...calls })
      : await source.stream(from.path, calls);
    await writeOut(bar.count(body, sizeBytes), out, calls.signal);
    return { to: '-', bytes: bar.bytes };
  }
  const isInto = (await isLocalFolder(to.path)) || (!isFolder && to.path.endsWith('/'));
  const as = isInto && !(isFolder && meansContent(from.path)) ? nameOf(from) : undefined;
  const path = as ? joinLocal(to.path, as) : to.path;
  const copied = () => ({ to: String(path), bytes: bar.bytes });
  if (!isFolder) {
    const { body, sizeBytes } = await source.stream(from.path, calls);
    await saveFile(path, bar.count(body, sizeBytes), { replace: true, signal: calls.signal });
    return copied();
  }
  const { body } = await source.archive(from.path, { format: 'tar', ...calls });
  await unpackLocal(to.path, bar.count(body), { ...(as && { as }), signal: calls.signal });
  return copied();
}

async function between(
  source: Files,
  from: SandboxSide,
  target: Files,
  to: SandboxSide,
  bar: TransferBar,
  calls: Calls,
): Promise<Copied> {
  const isFolder = await isDirectory(source, from.path, calls);
  const path = await targetPath(target, to.path, from, isFolder, calls);
  if (isFolder) {
    const { body } = await source.archive(from.path, { format: 'tar', ...calls });
    await target.unpack(path, bar.count(body), calls);
  } else {
    const { body, sizeBytes } = await source.stream(from.path, calls);
    await target.write(path, bar.count(body, sizeBytes), calls);
  }
  return { to: path, bytes: bar.bytes };
}

/** Returns the path of the copy: inside `to` if it is an existing directory, else `to` itself. */
async function targetPath(
  target: Files,
  to: string,
  from: LocalSide | SandboxSide,
  isFolder: boolean,
  calls: Calls,
): Promise<string> {
  if (isFolder && meansContent(from.path)) return to;
  const isInto = (!isFolder && to.endsWith('/')) || (await isDirectory(target, to, calls, false));
  return isInto ? joinSandbox(to, nameOf(from)) : to;
}

/** Returns whether the path is a directory. A link to a directory counts as one, as for `cp`. */
async function isDirectory(files: Files, path: string, calls: Calls, mustExist = true): Promise<boolean> {
  try {
    const { type } = await files.stat(path.endsWith('/') ? `${path}.` : path, calls);
    if (type !== 'symlink') return type === 'directory';
    return (await files.stat(`${path}/.`, calls)).type === 'directory';
  } catch (error) {
    if (!mustExist && isClocheError(error, 'not_found')) return false;
    if (isClocheError(error, 'conflict')) return false;
    throw error;
  }
}

async function isLocalFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
