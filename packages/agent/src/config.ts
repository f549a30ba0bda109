import { GUEST_PATH, TEMPLATE_ENVIRONMENT, WORKSPACE_PATH } from '@cloche/layout';

/** Where the agent finds its world. In a sandbox all of it is fixed; tests run the agent elsewhere. */
export interface AgentConfig {
  /** A listening socket that was passed in, the path to listen on, or that of a socket of the host's to dial. */
  listen: { fd: number } | { path: string } | { dial: string };
  /** Holds `bin/node`, `kernel-js/` and `python/`. */
  guestDir: string;
  /** What a context's `cwd` may not leave. */
  workspace: string;
  python: string;
  /** Who kernels run as. */
  uid: number;
  gid: number;
  home: string;
  /** Where kernels arrive that are forked into the sandbox; none do where this is undefined. */
  kernelsFolder: string | undefined;
  /** Whether they are forked in here, by a zygote of the sandbox's own. */
  hasOwnZygote: boolean;
  /** Descriptors that move processes to the group of kernels. */
  kernelsGroupFds: readonly number[];
  /** What programs may have of memory, where the kernel ends none that takes more. */
  guardedMemoryBytes: number | undefined;
  /** Where the logs of commands go: root's alone. */
  commandLogDir: string;
  /** The environment of every kernel, before the client's own. */
  baseEnv: Readonly<Record<string, string>>;
}

/** Throws when the environment names no place to listen. */
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

/** The template's variables, over those that the container was started with and that are not meant for the agent. */
function baseEnvironment(env: NodeJS.ProcessEnv, home: string): Record<string, string> {
  const inherited = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('CLOCHE_'),
  );
  // Written by hostd from a manifest that it has checked.
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
