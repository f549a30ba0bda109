import { getSystemErrorName } from 'node:util';
import { bindLibc } from './libc.ts';

const spawnCall = bindLibc(
  'int posix_spawnp(_Out_ int *pid, const char *file, void *actions, void *attributes, const char **argv, const char **envp)',
);
const initActionsCall = bindLibc('int posix_spawn_file_actions_init(void *actions)');
const addDup2Call = bindLibc('int posix_spawn_file_actions_adddup2(void *actions, int fd, int newFd)');
const addCloseCall = bindLibc('int posix_spawn_file_actions_addclose(void *actions, int fd)');
const destroyActionsCall = bindLibc('int posix_spawn_file_actions_destroy(void *actions)');
const initAttributesCall = bindLibc('int posix_spawnattr_init(void *attributes)');
const setFlagsCall = bindLibc('int posix_spawnattr_setflags(void *attributes, short flags)');
const setDefaultSignalsCall = bindLibc('int posix_spawnattr_setsigdefault(void *attributes, void *signals)');
const setSignalMaskCall = bindLibc('int posix_spawnattr_setsigmask(void *attributes, void *signals)');
const waitpidCall = bindLibc('int waitpid(int pid, _Out_ int *status, int options)');

/** More than the structures of any C library take. */
const STRUCTURE_BYTES = 1024;
const SIGNAL_SET_BYTES = 128;
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const WNOHANG = 1;

export interface Program {
  /** Looked for in this process's `PATH`. */
  file: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  /** What it has as its descriptors 0, 1, 2 and so on, and no other. */
  descriptors: readonly number[];
  /** After which it is killed. */
  timeoutMs: number;
}

/** How a program ended: one of the two. */
export interface ProgramEnd {
  code?: number;
  signal?: number;
}

/** Children that were started here. Whatever else this process starts waits for its own. */
const running = new Map<number, (end: ProgramEnd) => void>();
let isListening = false;

/**
 * Runs a program to its end, as `spawn` does for less: that forks, which copies the page tables of this process, stops it until the
 * program is loaded, and has it copy what it writes to meanwhile. Throws the system error of one that cannot be started.
 */
export function runProgram({ file, args, env, descriptors, timeoutMs }: Program): Promise<ProgramEnd> {
  const { promise, resolve } = Promise.withResolvers<ProgramEnd>();
  // Before it may end.
  listen();
  const pid = start(file, [file, ...args], env, descriptors);
  const timer = setTimeout(() => process.kill(pid, 'SIGKILL'), timeoutMs);
  running.set(pid, (end) => {
    clearTimeout(timer);
    resolve(end);
  });
  return promise;
}

function start(file: string, argv: readonly string[], env: Program['env'], descriptors: readonly number[]): number {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const actions = Buffer.alloc(STRUCTURE_BYTES);
  initActionsCall(actions);
  try {
    // First to numbers that none of them has, as one may have the number that another is to get.
    const first = Math.max(descriptors.length, ...descriptors) + 1;
    const steps = [
      ...descriptors.map((fd, index) => addDup2Call(actions, fd, first + index)),
      ...descriptors.map((_, index) => addDup2Call(actions, first + index, index)),
      ...descriptors.map((_, index) => addCloseCall(actions, first + index)),
    ];
    const pid = [0];
    // SECURITY: with one of them left out it would have a descriptor of this process's (run-program.test.ts).
    const refused = steps.find((errno) => errno !== 0);
    const errno = refused ?? spawnCall(pid, file, actions, attributes(), [...argv, null], [...variables, null]);
    if (errno !== 0) {
      const code = getSystemErrorName(-errno);
      throw Object.assign(new Error(`${file} cannot be started: ${code}`), { code });
    }
    return pid[0] ?? 0;
  } finally {
    destroyActionsCall(actions);
  }
}

/** Signals mean to it what they mean to any program: this process ignores some, which it would inherit. */
function attributes(): Buffer {
  const attributes = Buffer.alloc(STRUCTURE_BYTES);
  initAttributesCall(attributes);
  setDefaultSignalsCall(attributes, Buffer.alloc(SIGNAL_SET_BYTES, 0xff));
  setSignalMaskCall(attributes, Buffer.alloc(SIGNAL_SET_BYTES));
  setFlagsCall(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  return attributes;
}

function listen(): void {
  if (isListening) return;
  isListening = true;
  process.on('SIGCHLD', reap);
}

/** Signals of several children may arrive as one. */
function reap(): void {
  for (const [pid, ended] of running) {
    const status = [0];
    if (waitpidCall(pid, status, WNOHANG) !== pid) continue;
    running.delete(pid);
    ended(endOf(status[0] ?? 0));
  }
}

/** As `waitpid` packs it. */
function endOf(status: number): ProgramEnd {
  const signal = status & 0x7f;
  return signal === 0 ? { code: (status >> 8) & 0xff } : { signal };
}
