import { accessSync, constants, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { supervisorOptions } from '../commands/command-registry.ts';
import type { SupervisorOptions } from '../commands/supervisor.ts';
import type { AgentConfig } from '../config.ts';
import { type Account, findAccount, findGroup } from './accounts.ts';

/** Variables that the command gets of those of its caller, beside what the caller asks to keep. */
const KEPT = /^(TERM|COLORTERM|DISPLAY|XAUTHORITY|TZ|LANG|LANGUAGE|LC_\w+|LS_COLORS|[Nn][Oo]_[Cc][Oo][Ll][Oo][Rr])$/;
/** Largest side of a terminal. */
const MAX_SIDE = 9999;

/** A request of `sudo.c`. */
interface SudoRequest {
  readonly user: string;
  readonly group: string;
  readonly flags: ReadonlySet<string>;
  /** Names of variables to keep. */
  readonly kept: readonly string[];
  readonly cwd: string;
  readonly columns: number;
  readonly rows: number;
  readonly argv: readonly string[];
  readonly assigned: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
}

/** A request that cannot be carried out. Its message is for the caller of `sudo`. */
export class SudoError extends Error {
  override readonly name = 'SudoError';
}

/** Returns how to start the command of a request. @throws SudoError */
export function sudoOptions(text: string, config: AgentConfig): SupervisorOptions {
  const request = readRequest(text);
  const account = findAccount(request.user);
  if (!account) throw new SudoError(`unknown user ${request.user}`);
  const gid = request.group === '' ? account.gid : findGroup(request.group);
  if (gid === undefined) throw new SudoError(`unknown group ${request.group}`);
  const cwd = request.flags.has('i') ? account.home : request.cwd;
  const env = environmentOf(request, account, config);
  const argv = commandOf(request, account, env);
  requireProgram(argv[0] ?? '', cwd, env.PATH ?? '');
  const { columns, rows } = request;
  return {
    // One pipe for both streams keeps their order.
    argv: request.flags.has('merged') ? ['/bin/sh', '-c', 'exec "$0" "$@" 2>&1', ...argv] : argv,
    cwd,
    env: { ...env, PWD: cwd, SUDO_COMMAND: argv.join(' ') },
    uid: account.uid,
    gid,
    hasInput: true,
    ...(request.flags.has('terminal') && { terminal: { columns, rows } }),
  };
}

function readRequest(text: string): SudoRequest {
  const [user = '', group = '', flags = '', kept = '', cwd = '', size = '', count = '', ...rest] = text.split('\0');
  const [columns = 0, rows = 0] = size.split(' ').map(Number);
  const argv = rest.splice(0, Number(count));
  const assigned = rest.splice(0, 1 + Number(rest[0] ?? 0)).slice(1);
  const isSide = (side: number) => Number.isInteger(side) && side >= 1 && side <= MAX_SIDE;
  if (!isSide(columns) || !isSide(rows) || !cwd.startsWith('/')) throw new SudoError('the request is not understood');
  return {
    user,
    group,
    flags: new Set(flags.split(' ')),
    kept: kept.split(','),
    cwd,
    columns,
    rows,
    argv,
    assigned: variablesOf(assigned),
    env: variablesOf(rest),
  };
}

function variablesOf(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.flatMap((text) => {
      const at = text.indexOf('=');
      return at > 0 ? [[text.slice(0, at), text.slice(at + 1)]] : [];
    }),
  );
}

/** Returns the environment of the command: as that of a command of root, with what sudo keeps and sets. */
function environmentOf(request: SudoRequest, account: Account, config: AgentConfig): Record<string, string> {
  const { flags, kept, assigned, env, argv, cwd } = request;
  const root = supervisorOptions(config, {}, { argv: [...argv], cwd, env: {}, user: 'root', stdinOpen: true }).env;
  const isKept = (name: string) => KEPT.test(name) || (!flags.has('i') && (flags.has('E') || kept.includes(name)));
  const { PATH = '' } = root;
  return {
    ...root,
    SHELL: account.shell,
    HOME: account.home,
    ...Object.fromEntries(Object.entries(env).filter(([name]) => isKept(name))),
    ...(flags.has('H') && { HOME: account.home }),
    // SECURITY: not the caller's PATH, in whose folders the user could plant programs (sudo.runtime.test.ts).
    PATH,
    USER: account.name,
    LOGNAME: account.name,
    SUDO_USER: 'user',
    SUDO_UID: `${config.uid}`,
    SUDO_GID: `${config.gid}`,
    ...assigned,
  };
}

/** Returns the arguments, of a shell with `-i` and `-s`. */
function commandOf({ flags, argv, env }: SudoRequest, { shell }: Account, own: Record<string, string>): string[] {
  if (!flags.has('i') && !flags.has('s')) return [...argv];
  const program = flags.has('s') ? (env.SHELL ?? own.SHELL ?? shell) : shell;
  const line = argv.map((word) => word.replace(/[^\p{L}\p{N}_\-$]/gu, '\\$&')).join(' ');
  return [program, ...(flags.has('i') ? ['-l'] : []), ...(argv.length > 0 ? ['-c', line] : [])];
}

function requireProgram(name: string, cwd: string, path: string): void {
  const files = name.includes('/') ? [resolve(cwd, name)] : path.split(':').map((folder) => join(folder, name));
  if (name === '' || !files.some(isProgram)) throw new SudoError(`${name}: command not found`);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
