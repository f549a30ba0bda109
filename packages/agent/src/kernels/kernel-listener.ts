import type { FromKernel } from '@cloche/protocol';
import type { StandardStream } from '../base/standard-stream.ts';

/** What a kernel says of a run. */
export type RunMessage = Exclude<FromKernel, { type: 'ready' | 'unfit' }>;

/** A cell that is run ahead of the first one and leaves no trace. */
export interface WarmUpCell {
  runId: string;
  code: string;
  /** Called with what the cell prints and says. */
  listener: Pick<KernelListener, 'printed' | 'message'>;
}

/** What a kernel does, in order: everything that was printed before a message comes before it. */
export interface KernelListener {
  /** It takes cells. Again when it was replaced, or has a place of its own by now. */
  ready(): void;
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: RunMessage): void;
  /**
   * Last, and once. `reason` completes the sentence "the kernel …". Of a kernel that is no child of the agent nobody
   * learns which signal ended it, if one did: then `signal` is undefined.
   */
  exited(reason: string, signal: NodeJS.Signals | null | undefined): void;
}
