import type { Language } from '@cloche/protocol';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';

/** What a context does with its kernel. */
export type ContextKernel = Pick<
  KernelProcess,
  'ready' | 'execute' | 'interrupt' | 'drain' | 'pause' | 'resume' | 'setBusy' | 'isCrowded' | 'stop'
>;

export interface KernelRequest {
  cwd: string;
  /** Called with what the kernel prints and says, from the moment on that it is the caller's. */
  listener: KernelListener;
  /** Milliseconds to wait for a kernel that the host provides, before one is started in the sandbox. */
  kernelWaitMs: number;
  /** No kernel is started before this settles. */
  room?: Promise<void> | undefined;
}

/** Where the kernels of contexts come from. Contexts do not know how a kernel is made. */
export interface KernelProvisioner {
  /** The client's variables, for kernels that are provisioned from now on. */
  environment: Readonly<Record<string, string>>;
  /** Returns a kernel that is ready or about to be. Throws `language_unavailable`. */
  provision(language: Language, request: KernelRequest): ContextKernel;
  /** Whether the sandbox has processes left for a kernel of that language. */
  hasProcessesFor(language: Language): boolean;
  /** A context of that language was opened, and another one is likely. Idempotent. */
  noteUse(language: Language): void;
  /** Resolves when no kernel is left that belongs to no context. */
  close(): Promise<void>;
}
