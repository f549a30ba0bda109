import type { IsolationClaims } from '../runtime-driver.ts';

/**
 * What hostd enforces with an OCI runtime. gVisor gives a sandbox a kernel of its own, and so keeps it further from the
 * host; what goes by the host's control groups has no halves there, kernels are forked within it,
 * and hostd carries what is said.
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
