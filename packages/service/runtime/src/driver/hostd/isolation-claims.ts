import type { IsolationClaims } from '../runtime-driver.ts';

/** Claims for a runtime whose containers share the host's kernel, such as crun and runc. */
const SHARED_KERNEL: IsolationClaims = {
  networkModes: ['unrestricted', 'deny-all', 'allowlist', 'denylist'],
  disk: 'bounded',
  kernel: 'shared',
  memory: 'kernel',
  agentShare: 'own',
  pythonKernels: 'forked',
  hostRestarts: 'unnoticed',
};

/**
 * Runtimes with other claims. gVisor gives each sandbox its own kernel, which isolates it further from the host.
 * Control groups of the host cannot divide such a sandbox between the agent and user code, Python kernels are forked
 * inside the sandbox, and hostd forwards the connections to the agent.
 */
const OTHERS: ReadonlyMap<string, IsolationClaims> = new Map([
  [
    'runsc',
    {
      ...SHARED_KERNEL,
      kernel: 'own',
      memory: 'watched',
      agentShare: 'none',
      pythonKernels: 'forked within',
      hostRestarts: 'unavailable',
    },
  ],
]);

/** Returns what hostd enforces with an OCI runtime. */
export function claimsOf(ociRuntime: string): IsolationClaims {
  return OTHERS.get(ociRuntime) ?? SHARED_KERNEL;
}
