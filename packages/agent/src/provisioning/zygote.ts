import type { Language } from '@cloche/protocol';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';

/** A loaded Python interpreter that kernels are forked from: of the host, or of the sandbox itself. */
export interface Zygote {
  /** Whether it will have kernels to give before long, so that none need be started ahead. */
  readonly isComing: boolean;
  /** Returns a kernel that was forked for the caller, or undefined where none can be had within `waitMs`. */
  fork(waitMs: number): Promise<ForkedKernel | undefined>;
  /** No kernel arrives for the request that has waited longest. */
  giveUp(): void;
  /** A kernel is about to be provisioned for a context. */
  noteRequest(): void;
  /** A context of that language was opened. */
  noteUse(language: Language): void;
  /** A kernel begins to run a cell that takes a moment, or has ended one. */
  noteBusy(busy: boolean): void;
  /** A kernel that was forked was not what one that is started would be. */
  noteMismatch(): void;
  /** Gives back memory. Returns whether there was any. */
  release(): boolean;
  /** Resolves when it is gone. Its kernels live on. Idempotent. */
  close(): Promise<void>;
}
