import { Deadline } from '@cloche/node-support';
import { LaunchError } from '@cloche/runtime';

/** Asks a host within a time limit. Throws `LaunchError` `unreachable` if it does not answer in time. */
export async function inTime<T>(ms: number, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
  using limit = new Deadline(ms);
  try {
    return await ask(limit.signal);
  } catch (error) {
    if (limit.endedBy === undefined) throw error;
    throw new LaunchError('unreachable', `the host did not answer within ${ms} ms`, { cause: error });
  }
}
