import { closeSync, constants, openSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { errorCode } from '../kernel/libc.ts';
import { HostKernelRuntime, type HostKernelRuntimeDeps } from './host-kernel-runtime.ts';
import { sharedSeccompProfile } from './oci-config.ts';
import { resourceLimits } from './resource-limits.ts';
import type { ContainerSpec } from './runtime.ts';
import { compileSeccomp } from './seccomp-program.ts';

export type CrunDeps = Omit<HostKernelRuntimeDeps, 'limits' | 'seccompProgram'> & { log?: Logger | undefined };

/** crun takes the seccomp profile ready made, which takes it longest to make. */
export class Crun extends HostKernelRuntime {
  readonly #stateDir: string;

  constructor({ log, ...deps }: CrunDeps) {
    super({ ...deps, limits: resourceLimits(), seccompProgram: makeSeccompProgram(log) });
    this.#stateDir = deps.stateDir;
  }

  override async start(container: ContainerSpec): Promise<void> {
    if (!this.#releaseFirstProcess(container.key)) await super.start(container);
  }

  /**
   * What `crun start` comes down to, without the two programs that it takes: the first process waits at this pipe for a
   * byte. False where no process waits there: then it is for the runtime to say what is the matter.
   */
  #releaseFirstProcess(id: string): boolean {
    const pipe = join(this.#stateDir, id, 'exec.fifo');
    let fd: number;
    try {
      fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENXIO') return false;
      throw error;
    }
    try {
      // As long as it is there, crun takes the container for one that was not started.
      unlinkSync(pipe);
      writeSync(fd, '\0');
      return true;
    } finally {
      closeSync(fd);
    }
  }
}

/** Returns undefined where the profile itself has to do: there is no library to make a program with. */
function makeSeccompProgram(log: Logger | undefined): string | undefined {
  try {
    return compileSeccomp(sharedSeccompProfile()).toString('base64');
  } catch (err) {
    log?.warn({ operation: 'compile seccomp profile', outcome: 'failed', err });
    return undefined;
  }
}
