import { bindLibc, checked, errorCode } from './libc.ts';

const getattrCall = bindLibc('long syscall(long number, int thread, void *attributes, uint size, uint flags)');
const setattrCall = bindLibc('long syscall(long number, int thread, void *attributes, uint flags)');
const [SYS_SCHED_SETATTR, SYS_SCHED_GETATTR] = process.arch === 'arm64' ? [274, 275] : [314, 315];

/* `struct sched_attr` in its first version: size, policy, flags, nice, priority, runtime, deadline, period. */
const BYTES = 48;
const POLICY = 4;
const FLAGS = 8;
const RUNTIME = 24;
const [SCHED_OTHER, SCHED_BATCH] = [0, 3];
const RESET_ON_FORK = 1n;

/** Nanoseconds; 0.1 ms is the shortest slice that the kernel takes. */
export const SHORT_SLICE_NS = 100_000n;
/**
 * 3 ms: longer than the short slice, so that a thread with a short one preempts it. No longer, because the kernel owes
 * a thread that waits up to two slices, and pays them before a thread with a short slice runs again.
 */
export const LONG_SLICE_NS = 3_000_000n;

/**
 * Sets how long a thread runs at a time while others want the processor. A thread with a short slice that has slept
 * runs at once, before threads with long slices. Threads and processes that the thread starts afterwards inherit the
 * slice. Does nothing for a thread that has ended or has a real-time policy, and before Linux 6.12.
 */
export function setTimeSlice(thread: number, sliceNs: bigint): void {
  const attributes = Buffer.alloc(BYTES);
  try {
    checked(Number(getattrCall(SYS_SCHED_GETATTR, thread, attributes, BYTES, 0)), 'sched_getattr');
    const policy = attributes.readUInt32LE(POLICY);
    if (policy !== SCHED_OTHER && policy !== SCHED_BATCH) return;
    if (attributes.readBigUInt64LE(RUNTIME) === sliceNs) return;
    attributes.writeBigUInt64LE(attributes.readBigUInt64LE(FLAGS) & RESET_ON_FORK, FLAGS);
    attributes.writeBigUInt64LE(sliceNs, RUNTIME);
    checked(Number(setattrCall(SYS_SCHED_SETATTR, thread, attributes, 0)), 'sched_setattr');
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}
