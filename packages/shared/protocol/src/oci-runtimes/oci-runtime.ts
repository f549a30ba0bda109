import { type IsolationClaims, NETWORK_MODES } from '../isolation-claims.ts';

/** The facts of an OCI runtime that differ from one to another. `CLOCHE_OCI_RUNTIME` chooses one by its program. */
export interface OciRuntime {
  readonly program: string;
  /** Name for people, if they do not know the runtime by its program. */
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
