import type { KernelProcess } from './kernel-process.ts';
import type { KernelSupply } from './kernel-supply.ts';

/** What a context does with its kernel. */
export type ContextKernel = Pick<
  KernelProcess,
  'ready' | 'execute' | 'interrupt' | 'drain' | 'pause' | 'resume' | 'setBusy' | 'isCrowded' | 'stop'
>;

/** What contexts need of where their kernels come from. */
export interface KernelSource
  extends Pick<
    KernelSupply,
    'environment' | 'restock' | 'prepare' | 'close' | 'giveUpForkedKernel' | 'hasProcessesFor'
  > {
  launch(...asked: Parameters<KernelSupply['launch']>): ContextKernel;
}
