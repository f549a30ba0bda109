import type { Language } from '@cloche/protocol';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';

/** The part of a kernel that a context uses. */
export type ContextKernel = Pick<
  KernelProcess,
  'ready' | 'execute' | 'answer' | 'interrupt' | 'drain' | 'pause' | 'resume' | 'setBusy' | 'isCrowded' | 'stop'
>;

export interface KernelRequest {
  cwd: string;
  /** Receives the kernel's events, from the moment on at which the kernel belongs to the caller. */
  listener: KernelListener;
  /** Milliseconds to wait for a kernel of the host, before one is started in the sandbox. */
  kernelWaitMs: number;
  /** No kernel is started before this settles. */
  room?: Promise<void> | undefined;
}

/** Supplies contexts with kernels, however these are made. */
export interface KernelProvisioner {
  /** The client's variables, for kernels that are provisioned from now on. */
  environment: Readonly<Record<string, string>>;
  /** Returns a kernel that is ready or about to be. Throws `language_unavailable`. */
  provision(language: Language, request: KernelRequest): ContextKernel;
  /** Whether the sandbox has processes left for a kernel of that language. */
  hasProcessesFor(language: Language): boolean;
  /** Returns how often the sandbox has been refused a process or thread because of its limit. */
  countRefusals(): number;
  /** Call when a context of that language was opened, because another one is likely. Idempotent. */
  recordUse(language: Language): void;
  /** Ends all kernels that do not belong to a context. Resolves when they have ended. */
  close(): Promise<void>;
}
