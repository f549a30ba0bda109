import { type OciRuntime, SHARED_KERNEL } from './oci-runtime.ts';

export const RUNC: OciRuntime = { program: 'runc', aptPackage: 'runc', claims: SHARED_KERNEL };
