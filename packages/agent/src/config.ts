import { GUEST_PATH, TEMPLATE_ENVIRONMENT, WORKSPACE_PATH } from '@cloche/layout';

/** Paths, ids and features of one agent. Fixed in a sandbox; tests run the agent with other values. */
export interface AgentConfig {
  /** An inherited listening socket, a path to listen on, or the path of a socket of the host to connect to. */
  listen: { fd: number } | { path: string } | { dial: string };
  /** Folder that contains `bin/node`, `kernel-js/` and `python/`. */
  guestDir: string;
  /** Folder that contains the `cwd` of every context. */
  workspace: string;
  python: string;
  /** User id that kernels run as. */
  uid: number;
  gid: number;
  home: string;
  /** Folder in which kernels forked into the sandbox connect; undefined where none are. */
  kernelsFolder: string | undefined;
  /** Whether a zygote inside the sandbox forks the kernels. */
  hasOwnZygote: boolean;
  /** Descriptors that move processes to the control group of kernels. */
  kernelsGroupFds: readonly number[];
  /** Memory limit for programs that the agent enforces; undefined where the kernel enforces it. */
  guardedMemoryBytes: number | undefined;
  /** Folder for the logs of commands. Only root can read it. */
  commandLogDir: string;
  /** Environment of every kernel. The client's variables override it. */
  baseEnv: Readonly<Record<string, string>>;
}

/** Reads the configuration. Throws if the environment names no place to listen. */
export function readConfig(env: NodeJS.ProcessEnv): Readonly<AgentConfig> {
  const home = env.CLOCHE_USER_HOME ?? '/home/user';
  return Object.freeze({
    listen: readListen(env),
    guestDir: env.CLOCHE_GUEST_PATH ?? GUEST_PATH,
    workspace: env.CLOCHE_WORKSPACE ?? WORKSPACE_PATH,
    python: env.CLOCHE_PYTHON ?? '/usr/bin/python3',
    uid: Number(env.CLOCHE_USER_UID ?? 1000),
    gid: Number(env.CLOCHE_USER_GID ?? 1000),
    home,
    kernelsFolder: env.CLOCHE_KERNELS_FOLDER,
    hasOwnZygote: env.CLOCHE_OWN_ZYGOTE !== undefined,
    kernelsGroupFds: (env.CLOCHE_KERNELS_GROUP_FDS ?? '').split(',').filter(Boolean).map(Number),
    guardedMemoryBytes: env.CLOCHE_GUARDED_MEMORY === undefined ? undefined : Number(env.CLOCHE_GUARDED_MEMORY),
    commandLogDir: env.CLOCHE_COMMAND_LOGS ?? '/var/lib/cloche/commands',
    baseEnv: baseEnvironment(env, home),
  });
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
function baseEnvironment(env: NodeJS.ProcessEnv, home: string): Record<string, string> {
  const inherited = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('CLOCHE_'),
  );
  // hostd writes this variable from a manifest that it has checked.
  const template = JSON.parse(env[TEMPLATE_ENVIRONMENT] ?? '{}') as Record<string, string>;
  const path = template.PATH ?? env.PATH ?? '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return {
    LANG: 'C.UTF-8',
    ...Object.fromEntries(inherited),
    ...template,
    PATH: `${home}/.local/bin:${path}`,
    HOME: home,
    USER: 'user',
    LOGNAME: 'user',
    SHELL: '/bin/bash',
  };
}
