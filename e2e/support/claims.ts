import { ociRuntimeOf } from '@cloche/protocol';
import { SHARED_POSTGRES } from './service.ts';

const runtime = process.env.CLOCHE_OCI_RUNTIME ?? 'crun';

/** Isolation that the sandboxes under test promise. */
export const isolation = ociRuntimeOf(runtime).claims;

/** Returns `option`, and skips with `reason` where a service of a test has several servers (`service.ts`). */
export function sameWithEachServer(reason: string, option: { skip: string | false } = { skip: false }) {
  return { skip: option.skip || (SHARED_POSTGRES in process.env && `runs with one server alone: ${reason}`) };
}

/** Option for a test of a forked kernel, wherever its zygote lives. */
export const unlessStarted = {
  skip: isolation.pythonKernels === 'started' && 'every kernel is started by itself here',
};

/** Returns the option `skip`, with a reason, for a test of a property that not every runtime has. */
export function skipUnless<Name extends keyof typeof isolation>(claim: Name, value: (typeof isolation)[Name]) {
  return { skip: isolation[claim] !== value && `isolation.${claim} is "${isolation[claim]}" here, not "${value}"` };
}

/**
 * Returns the option `skip`, with `reason`, for a test whose subject is the same with each runtime: it runs with crun.
 */
export function sameWithEachRuntime(reason: string) {
  return { skip: runtime !== 'crun' && `runs with crun alone: ${reason}` };
}

/** As `sameWithEachRuntime`, for what the kernel of a sandbox may change: it runs with crun and with gVisor. */
export function sameOnTheHostKernel(reason: string) {
  return { skip: runtime === 'runc' && `runs with crun and gVisor alone: ${reason}` };
}
