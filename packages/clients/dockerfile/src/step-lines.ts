import { posix } from 'node:path';
import type { CopyStep, RunStep } from './plan.ts';

/** The account that a line runs as, and the line. */
export interface StepLine {
  readonly as: 'root' | 'user';
  readonly run: string;
}

/** Names of the user of every sandbox, who has the user id 1000. */
const SANDBOX_USER = /^(user|1000)(:(user|1000))?$/;
const ROOT = /^(root|0)(:(root|0))?$/;

/** Returns the shell line of a `RUN`. Steps run as root or as the sandbox's user; root becomes other users itself. */
export function runLine({ argv, user }: Pick<RunStep, 'argv' | 'user'>): StepLine {
  const command = argv.map(quoted).join(' ');
  if (ROOT.test(user)) return { as: 'root', run: `exec ${command}` };
  if (SANDBOX_USER.test(user)) return { as: 'user', run: `exec ${command}` };
  const [name = '', group] = user.split(':');
  const isNumber = /^\d+$/.test(name);
  if (group === undefined && !isNumber)
    return { as: 'root', run: `exec su -s /bin/sh -c ${quoted(`exec ${command}`)} ${quoted(name)}` };
  // As in Docker, a number without an account has the group of root.
  const ofNumber = `$(id -g ${quoted(name)} 2>/dev/null || echo 0)`;
  const ids = `--reuid=${quoted(name)} --regid=${group === undefined ? ofNumber : quoted(group)} --clear-groups`;
  return { as: 'root', run: `exec setpriv ${ids} ${command}` };
}

/** Returns the line that creates a directory of `WORKDIR`. */
export function directoryLine(path: string): string {
  return `mkdir -p -- ${quoted(path)}`;
}

/**
 * Returns the line that unpacks the archive of a `COPY`, whose paths begin at `/`, and deletes it. Directories that
 * exist keep their owner and mode, as Docker leaves them, if the `tar` of the template can do that.
 *
 * @param paths absolute paths of all entries
 */
export function unpackLine({ owner }: Pick<CopyStep, 'owner'>, archive: string, paths: readonly string[]): string {
  const keep = '$(tar --version 2>/dev/null | grep -q GNU && echo --no-overwrite-dir)';
  if (owner === undefined) return `set -e; tar ${keep} -xzpf ${archive} -C /; rm ${archive}`;
  const stage = `${archive}.d`;
  const names = [...new Set(paths.map((path) => path.split('/')[1] ?? ''))]
    .map((name) => quoted(`./${name}`))
    .join(' ');
  const parents = directoryLine(posix.dirname(paths[0] ?? '/'));
  return [
    `set -e; mkdir ${stage}; tar -xzpf ${archive} -C ${stage}`,
    // A user without a group also gets its login group; a number is the group too.
    `chown -Rh ${quoted(/^\d+$/.test(owner) ? `${owner}:${owner}` : owner.includes(':') ? owner : `${owner}:`)} ${stage}`,
    `${parents}; tar -cf ${archive} -C ${stage} ${names}; tar ${keep} -xpf ${archive} -C /; rm -r ${stage} ${archive}`,
  ].join('; ');
}

/** Returns a word that the shell reads as it is. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
