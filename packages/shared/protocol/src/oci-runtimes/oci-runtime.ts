import { type IsolationClaims, NETWORK_MODES } from '../isolation-claims.ts';

/** The properties in which OCI runtimes differ. `CLOCHE_OCI_RUNTIME` selects a runtime by its program. */
export interface OciRuntime {
  readonly program: string;
  /** Name of the runtime in messages, if it differs from the program. */
  readonly title?: string;
  /** Debian's package. Absent where the program is built for Cloche when it is chosen. */
  readonly aptPackage?: string;
  readonly claims: IsolationClaims;
}

/** Claims for a runtime whose containers share the host's kernel. */
export const SHARED_KERNEL: IsolationClaims = {
  networkModes: [...NETWORK_MODES],
  disk: 'bounded',
  kernel: 'shared',
  memory: 'kernel',
  agentShare: 'own',
  pythonKernels: 'forked',
  hostRestarts: 'unnoticed',
};
