import type { Language } from '@cloche/protocol';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';

/** A loaded Python interpreter from which kernels are forked. It belongs to the host or to the sandbox. */
export interface Zygote {
  /** Whether it can fork soon, so that no kernel needs to be started ahead. */
  readonly isComing: boolean;
  /** Loads it without a delay. Returns false if it forks no kernel ahead of the first context. */
  loadNow(): boolean;
  /** Returns a kernel forked for the caller, or undefined if there is none within `waitMs`. */
  fork(waitMs: number): Promise<ForkedKernel | undefined>;
  /** Ends the wait of the oldest request without a kernel. */
  giveUp(): void;
  /** Call when a kernel is about to be provisioned for a context. */
  recordRequest(): void;
  /** Call when a context of that language was opened. */
  recordUse(language: Language): void;
  /** Call when a kernel begins a cell that takes a while, and when it has ended one. */
  noteBusy(busy: boolean): void;
  /** Call when a forked kernel differed from one that would be started now. */
  noteMismatch(): void;
  /** Frees memory. Returns whether there was any. */
  release(): boolean;
  /** Ends the zygote. Its kernels live on. Resolves when it has ended. Idempotent. */
  close(): Promise<void>;
}
