import type { Logger } from 'pino';
import { HostKernelRuntime, type HostKernelRuntimeDeps } from './host-kernel-runtime.ts';
import { sharedSeccompProfile } from './oci-config.ts';
import { resourceLimits } from './resource-limits.ts';
import { compileSeccomp } from './seccomp-program.ts';

export type CrunDeps = Omit<HostKernelRuntimeDeps, 'limits' | 'seccompProgram' | 'coversProc'> & {
  log?: Logger | undefined;
};

/** The crun runtime. It gets the seccomp profile compiled, because compiling takes most of crun's start-up time. */
export class Crun extends HostKernelRuntime {
  constructor({ log, ...deps }: CrunDeps) {
    super({ ...deps, limits: resourceLimits(), seccompProgram: makeSeccompProgram(log), coversProc: true });
  }
}

/** Returns undefined without libseccomp; crun then compiles the profile itself. */
function makeSeccompProgram(log: Logger | undefined): string | undefined {
  try {
    return compileSeccomp(sharedSeccompProfile()).toString('base64');
  } catch (err) {
    log?.warn({ operation: 'compile seccomp profile', outcome: 'failed', err });
    return undefined;
  }
}
