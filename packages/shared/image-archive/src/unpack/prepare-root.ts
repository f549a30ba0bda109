import { chmodSync, chownSync, lchownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { LOGIN_PROFILE } from '@cloche/layout';
import { ImageError } from '../read/image-error.ts';
import { RootFolder } from './root-folder.ts';

const USER_ID = 1000;
const USER_NAME = 'user';
const USER_HOME = '/home/user';
const MAX_ACCOUNTS_BYTES = 1024 * 1024;

/** Directories that every sandbox has, with owner and mode. Mount points must not be links. */
const DIRECTORIES: readonly [path: string, owner: number, mode: number][] = [
  ['dev', 0, 0o755],
  ['etc', 0, 0o755],
  ['home', 0, 0o755],
  ['home/user', USER_ID, 0o755],
  ['opt', 0, 0o755],
  ['opt/cloche', 0, 0o755],
  ['proc', 0, 0o555],
  ['root', 0, 0o700],
  ['run', 0, 0o755],
  ['sys', 0, 0o555],
  ['tmp', 0, 0o1777],
  ['workspace', USER_ID, 0o755],
];

/** Files that each sandbox has of its own. */
const OWN_FILES = ['etc/hostname', 'etc/hosts', 'etc/resolv.conf'];

/**
 * Gives an unpacked image what every sandbox needs: mount points, the folders of the user, and the account with the
 * user id 1000 (docs/adr/0033-a-sandbox-has-one-user.md). Creates the working directory of the image if it is missing,
 * as Docker does when it starts a container. Login shells keep the PATH of the image.
 *
 * @throws {ImageError} if the image has no usable `/etc`, or a file in place of its working directory.
 */
export function prepareRoot(folder: string, workdir: string): void {
  const root = new RootFolder(folder);
  chmodSync(folder, 0o755);
  for (const [path, owner, mode] of DIRECTORIES) {
    const stat = root.stat(path);
    if (path === 'etc' && stat && !stat.isDirectory()) throw new ImageError('/etc of the image is not a directory.');
    if (stat && !stat.isDirectory()) root.remove(path);
    // A directory of the image keeps its mode, but for those whose mode sandboxes rely on.
    const isNew = !root.stat(path);
    if (isNew) mkdirSync(root.at(path));
    if (isNew || owner === USER_ID || path === 'tmp') {
      chownSync(root.at(path), owner, owner);
      chmodSync(root.at(path), mode);
    }
  }
  makeWorkdir(root, workdir);
  if (root.stat(root.resolve('etc/profile'))) replaceFile(root, 'etc/profile', LOGIN_PROFILE);
  for (const path of OWN_FILES) replaceFile(root, path, '');
  const shell = root.stat(root.resolve('bin/bash')) ? '/bin/bash' : '/bin/sh';
  const user = `${USER_NAME}:x:${USER_ID}:${USER_ID}::${USER_HOME}:${shell}`;
  addAccount(root, 'etc/passwd', user, 'root:x:0:0:root:/root:/bin/sh');
  addAccount(root, 'etc/group', `${USER_NAME}:x:${USER_ID}:`, 'root:x:0:');
}

function makeWorkdir(root: RootFolder, workdir: string): void {
  try {
    root.directory(Buffer.from(workdir).toString('latin1'));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ImageError(`The working directory of the image cannot be created: ${why}.`);
  }
}

/** Puts a line first, so that it counts before another of the same id. A file without lines also gets that of root. */
function addAccount(root: RootFolder, path: string, line: string, rootLine: string): void {
  const place = root.resolve(path);
  const stat = root.stat(place);
  const isText = stat?.isFile() && stat.size <= MAX_ACCOUNTS_BYTES;
  const text = isText ? readFileSync(root.at(place), 'latin1') : '';
  const lines = text.split('\n').filter((each) => each !== '' && each !== line);
  if (!lines.some((each) => each.startsWith('root:'))) lines.unshift(rootLine);
  replaceFile(root, path, `${[line, ...lines].join('\n')}\n`);
}

function replaceFile(root: RootFolder, path: string, text: string): void {
  const place = root.resolve(path);
  if (root.stat(place)) root.remove(place);
  writeFileSync(root.at(place), text, { mode: 0o644, encoding: 'latin1', flag: 'wx' });
  lchownSync(root.at(place), 0, 0);
  chmodSync(root.at(place), 0o644);
}
