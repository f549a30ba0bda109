import type { IsolationClaims } from '../runtime-driver.ts';

/**
 * Returns what hostd enforces with an OCI runtime. gVisor gives each sandbox its own kernel, which isolates it further
 * from the host. With gVisor, control groups cannot divide a sandbox between the agent and user code, Python kernels
 * are forked inside the sandbox, and hostd forwards the connections to the agent.
 */
export function claimsOf(ociRuntime: string): IsolationClaims {
  const isGvisor = ociRuntime === 'runsc';
  return {
    networkModes: ['unrestricted', 'deny-all', 'allowlist', 'denylist'],
    disk: 'bounded',
    kernel: isGvisor ? 'own' : 'shared',
    memory: isGvisor ? 'watched' : 'kernel',
    agentShare: isGvisor ? 'none' : 'own',
    pythonKernels: isGvisor ? 'forked within' : 'forked',
    hostRestarts: isGvisor ? 'unavailable' : 'unnoticed',
  };
}
