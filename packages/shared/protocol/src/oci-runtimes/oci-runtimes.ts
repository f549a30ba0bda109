import { CRUN } from './crun.ts';
import { type OciRuntime, SHARED_KERNEL } from './oci-runtime.ts';
import { RUNC } from './runc.ts';
import { RUNSC } from './runsc.ts';

/** The runtimes that Cloche is tested with. The first one is the default. */
export const OCI_RUNTIMES: readonly OciRuntime[] = [CRUN, RUNC, RUNSC];

/** Returns the facts of a runtime. An unknown one is treated as one whose containers share the host's kernel. */
export function ociRuntimeOf(program: string): OciRuntime {
  return OCI_RUNTIMES.find((one) => one.program === program) ?? { program, aptPackage: program, claims: SHARED_KERNEL };
}

/** Whether a runtime is gVisor, which is built for Cloche instead of installed by the system's packages. */
export function isGvisor(program: string): boolean {
  return program === RUNSC.program;
}
