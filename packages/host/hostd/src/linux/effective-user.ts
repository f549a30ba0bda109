import { bindLibc, checked } from './libc.ts';

/* By number: the C library's own function would change all threads of this process. */
const setresuidCall = bindLibc('long syscall(long number, int real, int effective, int saved)');
const prctlCall = bindLibc('int prctl(int option, ulong value, ulong a, ulong b, ulong c)');
const getDeathSignalCall = bindLibc('int prctl(int option, _Out_ int *signal, ulong a, ulong b, ulong c)');

const SYS_SETRESUID = process.arch === 'arm64' ? 147 : 117;
const UNCHANGED = -1;
const PR_SET_PDEATHSIG = 1;
const PR_GET_PDEATHSIG = 2;
const PR_GET_DUMPABLE = 3;
const PR_SET_DUMPABLE = 4;
const PR_GET_SECUREBITS = 27;
const PR_SET_SECUREBITS = 28;
const SECBIT_NO_SETUID_FIXUP = 4;

/**
 * Runs the synchronous `act` while this thread has another effective user id and keeps all of its capabilities. The
 * real user id stays root, so no process of that user may signal or trace this one.
 */
export function withEffectiveUser<T>(user: number, act: () => T): T {
  const deathSignal = [0];
  checked(getDeathSignalCall(PR_GET_PDEATHSIG, deathSignal, 0, 0, 0), 'prctl');
  const dumpable = prctl(PR_GET_DUMPABLE);
  const secureBits = prctl(PR_GET_SECUREBITS);
  // Keeps the capabilities: some hosts let only privileged processes create user namespaces.
  prctl(PR_SET_SECUREBITS, secureBits | SECBIT_NO_SETUID_FIXUP);
  try {
    setEffectiveUser(user);
    return act();
  } finally {
    setEffectiveUser(0);
    prctl(PR_SET_SECUREBITS, secureBits);
    // Each change of the effective user resets both.
    prctl(PR_SET_DUMPABLE, dumpable);
    prctl(PR_SET_PDEATHSIG, deathSignal[0]);
  }
}

function setEffectiveUser(user: number): void {
  checked(Number(setresuidCall(SYS_SETRESUID, UNCHANGED, user, UNCHANGED)), 'setresuid');
}

function prctl(option: number, value = 0): number {
  return checked(prctlCall(option, value, 0, 0, 0), 'prctl');
}
