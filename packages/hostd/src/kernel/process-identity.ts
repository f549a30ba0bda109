import { closeSync, openSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { bindLibc, checked, errorCode } from './libc.ts';

/** A process and when it started: a number alone is given to another one sooner or later. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot. */
  startTicks: number;
  bootId: string;
}

export const BOOT_ID = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** The identity of a process that lives now (a zombie does not). */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid);
  return stat && { pid, startTicks: stat.startTicks, bootId: BOOT_ID };
}

/** Whether that very process still lives. */
export function isProcessAlive({ pid, startTicks, bootId }: ProcessIdentity): boolean {
  return bootId === BOOT_ID && readStat(pid)?.startTicks === startTicks;
}

function readStat(pid: number): { startTicks: number } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name, in parentheses, may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  return { startTicks: Number(fields[19]) };
}

const pidfdOpenCall = bindLibc('long syscall(long number, int pid, uint flags)');
const pidfdSendSignalCall = bindLibc('long syscall(long number, int pidfd, int signal, void *info, uint flags)');
/** The same on every architecture. */
const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;

/** Descriptors of namespaces of that very process, which the caller closes. Throws when it does not live any more. */
export function openNamespaces(identity: ProcessIdentity, names: readonly string[]): number[] {
  const opened: number[] = [];
  try {
    for (const name of names) opened.push(openSync(`/proc/${identity.pid}/ns/${name}`, 'r'));
    // Only now: a process that still lives had this number all the while.
    if (isProcessAlive(identity)) return opened;
    throw new Error(`process ${identity.pid} has ended`);
  } catch (error) {
    for (const fd of opened) closeSync(fd);
    throw error;
  }
}

/**
 * Kills the process that has this number if `isWanted` says so while the number cannot pass to another one.
 * A process that has ended is success.
 */
export function killIf(pid: number, isWanted: () => boolean): void {
  let fd: number | undefined;
  try {
    fd = Number(checked(pidfdOpenCall(SYS_PIDFD_OPEN, pid, 0), 'pidfd_open', String(pid)));
    if (isWanted())
      checked(pidfdSendSignalCall(SYS_PIDFD_SEND_SIGNAL, fd, constants.signals.SIGKILL, null, 0), 'pidfd_send_signal');
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
