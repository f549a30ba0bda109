import { closeSync, openSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { bindLibc, checked, errorCode } from './libc.ts';

/** A process and its start time, because the kernel reuses process ids. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot. */
  startTicks: number;
  bootId: string;
}

export const BOOT_ID = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** Returns the identity of a live process; undefined for a zombie or a process that has ended. */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid);
  return stat && { pid, startTicks: stat.startTicks, bootId: BOOT_ID };
}

/** Returns whether that same process still lives. */
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
  // The name in parentheses may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  return { startTicks: Number(fields[19]) };
}

const pidfdOpenCall = bindLibc('long syscall(long number, int pid, uint flags)');
const pidfdSendSignalCall = bindLibc('long syscall(long number, int pidfd, int signal, void *info, uint flags)');
/** These numbers are the same on every architecture. */
const SYS_PIDFD_SEND_SIGNAL = 424;
const SYS_PIDFD_OPEN = 434;

/** Opens namespaces of that same process; the caller closes the descriptors. Throws when the process has ended. */
export function openNamespaces(identity: ProcessIdentity, names: readonly string[]): number[] {
  const opened: number[] = [];
  try {
    for (const name of names) opened.push(openSync(`/proc/${identity.pid}/ns/${name}`, 'r'));
    // Checked after the opens: a process that still lives had this id during all of them.
    if (isProcessAlive(identity)) return opened;
    throw new Error(`process ${identity.pid} has ended`);
  } catch (error) {
    for (const fd of opened) closeSync(fd);
    throw error;
  }
}

/**
 * Kills the process with this id if `isWanted` returns true; the id cannot be reused meanwhile. Does nothing for a
 * process that has ended.
 */
export function killProcessIf(pid: number, isWanted: () => boolean): void {
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
