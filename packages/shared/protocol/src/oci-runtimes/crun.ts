import { type OciRuntime, SHARED_KERNEL } from './oci-runtime.ts';

/** The default. */
export const CRUN: OciRuntime = { program: 'crun', aptPackage: 'crun', claims: SHARED_KERNEL };
