import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { GUEST_PATH, TEMPLATE_ENVIRONMENT, WORKSPACE_PATH } from '@cloche/layout';

/** Paths, ids and features of one agent. Fixed in a sandbox; tests run the agent with other values. */
export interface AgentConfig {
  /** An inherited listening socket, a path to listen on, or the path of a socket of the host to connect to. */
  listen: { fd: number } | { path: string } | { dial: string };
  /** Folder that contains `bin/node`, `kernel-js/` and `python/`. */
  guestDir: string;
  /**
   * Whether programs of the guest folder use the libraries of that folder, because those of the root file system are
   * unknown. True if the agent itself was started so.
   */
  ownLibraries: boolean;
  /** Folder that contains the `cwd` of every context. */
  workspace: string;
  python: string;
  /** Path of the shell that runs terminals and shell lines: bash, or `sh` where the root file system lacks it. */
  shell: string;
  /** User id that kernels run as. */
  uid: number;
  gid: number;
  home: string;
  /** Folder in which kernels forked into the sandbox connect; undefined where none are. */
  kernelsFolder: string | undefined;
  /** Whether a zygote inside the sandbox forks the kernels. */
  hasOwnZygote: boolean;
  /** Modules that the zygote inside the sandbox loads in addition. */
  warmImports: readonly string[];
  /** Descriptors that move processes to the control group of kernels. */
  kernelsGroupFds: readonly number[];
  /** Descriptors that move a process to the reserve for a command of the sandbox's owner. */
  reserveGroupFds: readonly number[];
  /** Memory limit for programs that the agent enforces; undefined where the kernel enforces it. */
  guardedMemoryBytes: number | undefined;
  /** Folder for the logs of commands. Only root can read it. */
  commandLogDir: string;
  /** Path of the socket at which `sudo` is answered, where the server permits it. */
  sudoSocket: string;
  /** Environment of every kernel. The client's variables override it. */
  baseEnv: Readonly<Record<string, string>>;
}

/** Name of the dynamic loader in `lib` of the guest folder. */
export const LOADER = 'ld.so';

/** Path of the socket of `sudo` in every sandbox, which the program in the guest folder names. */
export const SUDO_SOCKET = '/run/cloche-sudo.sock';

const PYTHON = '/usr/bin/python3';

/** Reads the configuration. Throws if the environment names no place to listen. */
export function readConfig(env: NodeJS.ProcessEnv): Readonly<AgentConfig> {
  const home = env.CLOCHE_USER_HOME ?? '/home/user';
  const ownLibraries = basename(process.execPath) === LOADER;
  const shell = ownLibraries && !existsSync('/bin/bash') ? '/bin/sh' : '/bin/bash';
  const baseEnv = baseEnvironment(env, home, shell);
  return Object.freeze({
    listen: readListen(env),
    guestDir: env.CLOCHE_GUEST_PATH ?? GUEST_PATH,
    ownLibraries,
    workspace: env.CLOCHE_WORKSPACE ?? WORKSPACE_PATH,
    python: env.CLOCHE_PYTHON ?? (ownLibraries ? findPython(baseEnv.PATH) : PYTHON),
    shell,
    uid: Number(env.CLOCHE_USER_UID ?? 1000),
    gid: Number(env.CLOCHE_USER_GID ?? 1000),
    home,
    kernelsFolder: env.CLOCHE_KERNELS_FOLDER,
    hasOwnZygote: env.CLOCHE_OWN_ZYGOTE !== undefined,
    warmImports: (env.CLOCHE_WARM_IMPORTS ?? '').split(',').filter(Boolean),
    kernelsGroupFds: descriptorsIn(env.CLOCHE_KERNELS_GROUP_FDS),
    reserveGroupFds: descriptorsIn(env.CLOCHE_RESERVE_GROUP_FDS),
    guardedMemoryBytes: env.CLOCHE_GUARDED_MEMORY === undefined ? undefined : Number(env.CLOCHE_GUARDED_MEMORY),
    commandLogDir: env.CLOCHE_COMMAND_LOGS ?? '/var/lib/cloche/commands',
    sudoSocket: env.CLOCHE_SUDO_SOCKET ?? SUDO_SOCKET,
    baseEnv,
  });
}

function descriptorsIn(list = ''): number[] {
  return list.split(',').filter(Boolean).map(Number);
}

function readListen(env: NodeJS.ProcessEnv): AgentConfig['listen'] {
  const path = env.CLOCHE_LISTEN_PATH;
  if (path !== undefined) return { path };
  const dial = env.CLOCHE_DIAL_PATH;
  if (dial !== undefined) return { dial };
  const fd = Number(env.CLOCHE_LISTEN_FD);
  if (!Number.isInteger(fd) || fd < 3) throw new Error('CLOCHE_LISTEN_FD must name the inherited listening socket');
  return { fd };
}

/** Returns the template's variables, over the container's variables except those for the agent. */
function baseEnvironment(
  env: NodeJS.ProcessEnv,
  home: string,
  shell: string,
): Record<string, string> & { PATH: string } {
  const inherited = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('CLOCHE_'),
  );
  // hostd writes this variable from a manifest that it has checked.
  const template = JSON.parse(env[TEMPLATE_ENVIRONMENT] ?? '{}') as Record<string, string>;
  // Where npm installs packages globally: with the template's prefix, beside an image's own Node, and as distributions do.
  const prefixes = [template.NPM_CONFIG_PREFIX ?? env.NPM_CONFIG_PREFIX ?? `${home}/.local`, '/usr/local', '/usr'];
  const path = template.PATH ?? env.PATH ?? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return {
    LANG: 'C.UTF-8',
    NODE_PATH: [...new Set(prefixes)].map((prefix) => join(prefix, 'lib/node_modules')).join(':'),
    ...Object.fromEntries(inherited),
    ...template,
    PATH: `${home}/.local/bin:${path}`,
    HOME: home,
    USER: 'user',
    LOGNAME: 'user',
    SHELL: shell,
  };
}

/** Returns the first Python of a PATH. Images keep their own in `/usr/local/bin`. */
function findPython(path: string): string {
  const candidates = path.split(':').map((folder) => join(folder, 'python3'));
  return candidates.find((file) => existsSync(file)) ?? PYTHON;
}
