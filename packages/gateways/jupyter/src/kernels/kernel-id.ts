import type { ContextId, SandboxId } from '@cloche/contract';

/** The context that a kernel is. */
export interface KernelContext {
  readonly sandboxId: SandboxId;
  readonly contextId: ContextId;
}

/** Five words, because Jupyter's servers find ids in paths by the hyphens of a UUID. */
const KERNEL_ID = /^cloche-jupyter-kernel-(sbx_\w{1,64})-(cctx_\w{1,64})$/;

/** Returns the id of a kernel. It names the context, so that every server knows every kernel. */
export function kernelIdOf({ sandboxId, contextId }: KernelContext): string {
  return `cloche-jupyter-kernel-${sandboxId}-${contextId}`;
}

/** Returns undefined if it is no id of a kernel. Only `/v1` knows whether the kernel exists, and for which keys. */
export function readKernelId(id: string): KernelContext | undefined {
  const [, sandboxId, contextId] = KERNEL_ID.exec(id) ?? [];
  // The pattern has the prefixes.
  return sandboxId && contextId ? ({ sandboxId, contextId } as KernelContext) : undefined;
}
