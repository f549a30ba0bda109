import type { FromKernel } from '@cloche/protocol';
import type { StandardStream } from '../base/standard-stream.ts';

/** Messages of a kernel about a run. */
export type RunMessage = Exclude<FromKernel, { type: 'ready' | 'unfit' }>;

/** A cell that is run before the first one and leaves no trace. */
export interface WarmUpCell {
  runId: string;
  code: string;
  /** Receives the cell's output and messages. */
  listener: Pick<KernelListener, 'printed' | 'message'>;
}

/** Receives the events of a kernel, in order: output printed before a message is reported before it. */
export interface KernelListener {
  /** The kernel accepts cells. Called again after the kernel was replaced or moved. */
  ready(): void;
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: RunMessage): void;
  /**
   * The last event, exactly once. `reason` completes the sentence "the kernel …". `signal` is undefined for a kernel
   * that is not a child of the agent, because its exit status is unknown.
   */
  exited(reason: string, signal: NodeJS.Signals | null | undefined): void;
}
