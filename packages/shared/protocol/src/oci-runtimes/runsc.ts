import { type OciRuntime, SHARED_KERNEL } from './oci-runtime.ts';

/**
 * gVisor gives each sandbox its own kernel, which isolates it further from the host. Control groups of the host cannot
 * divide such a sandbox between the agent and user code, Python kernels are forked inside the sandbox, and hostd
 * forwards the connections to the agent.
 */
export const RUNSC: OciRuntime = {
  program: 'runsc',
  title: 'gVisor',
  claims: {
    ...SHARED_KERNEL,
    kernel: 'own',
    memory: 'watched',
    agentShare: 'none',
    pythonKernels: 'forked within',
    hostRestarts: 'unavailable',
  },
};
