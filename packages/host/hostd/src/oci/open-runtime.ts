import { existsSync } from 'node:fs';
import { ociRuntimeOf } from '@cloche/protocol';
import type { Logger } from 'pino';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { AgentRelays } from '../relay/agent-relays.ts';
import { Crun } from './crun.ts';
import { HostKernelRuntime } from './host-kernel-runtime.ts';
import { OciCommand } from './oci-command.ts';
import { resourceLimits } from './resource-limits.ts';
import { RUNSC_OPTIONS, Runsc } from './runsc.ts';
import type { Runtime } from './runtime.ts';

export interface RuntimeOptions {
  /** Name of the runtime: crun, runc or runsc; any other is treated as a plain OCI runtime. */
  name: string;
  /** The program, by name or absolute path. */
  program: string;
  /** Folder of the runtime's own state. */
  stateDir: string;
  cgroups: Cgroups;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
  /** The owner of the sockets. */
  service: { uid: number; gid: number };
  /** Folder of the relay folders that guests see, for a runtime that needs them. */
  dialsDir: string;
  log?: Logger | undefined;
}

/** Opens the runtime of that name and detects its features. */
export async function openRuntime({
  name,
  program,
  stateDir,
  dialsDir,
  log,
  ...options
}: RuntimeOptions): Promise<Runtime> {
  const { claims } = ociRuntimeOf(name);
  const deps = { ...options, claims };
  const { cgroups, socketsDir, service } = deps;
  switch (name) {
    case 'crun': {
      const command = new OciCommand({ program, stateDir });
      // A crun that cannot list its features supports time namespaces.
      return new Crun({ ...deps, log, command, timeNamespace: await hasTimeNamespaces(command, true) });
    }
    case 'runc': {
      // runc would set limits on the first process from outside. That needs a privilege over its user namespace which
      // only the namespace's owner and CAP_SYS_RESOURCE give. So runc itself gets the limits, and the first process
      // inherits them.
      const command = new OciCommand({ program, stateDir, limits: resourceLimits() });
      return new HostKernelRuntime({ ...deps, command, limits: [], timeNamespace: await hasTimeNamespaces(command) });
    }
    case 'runsc': {
      // runsc starts parts of itself by its path.
      const command = new OciCommand({ program, stateDir, options: RUNSC_OPTIONS, byPath: true });
      const relays = new AgentRelays({ dialsDir, socketsDir, service });
      return new Runsc({ cgroups, claims, command, relays, timeNamespace: await hasTimeNamespaces(command) });
    }
    default: {
      const command = new OciCommand({ program, stateDir });
      const timeNamespace = await hasTimeNamespaces(command);
      return new HostKernelRuntime({ ...deps, command, limits: resourceLimits(), timeNamespace });
    }
  }
}

/** Returns whether kernel and runtime both support time namespaces. */
export async function hasTimeNamespaces(command: OciCommand, fallback = false): Promise<boolean> {
  return existsSync('/proc/self/ns/time') && ((await command.supportsTimeNamespaces()) ?? fallback);
}
