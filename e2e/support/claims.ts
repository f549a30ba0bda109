import { claimsOf } from '@cloche/testkit/isolation-claims';

/** What the sandboxes under test promise. */
export const isolation = claimsOf(process.env.CLOCHE_OCI_RUNTIME ?? 'crun');

/** For a test of a kernel that was forked, wherever its zygote lives. */
export const unlessStarted = {
  skip: isolation.pythonKernels === 'started' && 'every kernel is started by itself here',
};

/** For a test of something that not every runtime has: its option `skip`, with the reason. */
export function skipUnless<Name extends keyof typeof isolation>(claim: Name, value: (typeof isolation)[Name]) {
  return { skip: isolation[claim] !== value && `isolation.${claim} is "${isolation[claim]}" here, not "${value}"` };
}
