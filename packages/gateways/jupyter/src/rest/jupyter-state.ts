import type { IncomingMessage } from 'node:http';
import { GatewayError, type HeldConnection, type HoldConnection, loopbackClient, loopbackFetchFor } from '@cloche/kit';
import type { Cloche } from '@cloche/sdk';
import type { Logger } from 'pino';
import { type ApiAccess, apiKeyOf } from '../api-key.ts';
import { SharedKernels } from '../channels/shared-kernels.ts';
import { Kernels } from '../kernels/kernels.ts';
import { Sessions } from './sessions.ts';

export interface JupyterDeps {
  readonly holdConnection: HoldConnection;
  /**
   * Returns the URL at which `/v1` answers. Every request of a client becomes requests to it, with the client's key.
   */
  readonly apiUrl: () => string;
  readonly version: string;
  readonly log: Logger;
}

/** The state that all routes share. */
export class JupyterState {
  readonly prefix = '/jupyter';
  readonly sharedKernels: SharedKernels;
  readonly sessions = new Sessions();
  readonly #deps: JupyterDeps;

  constructor(deps: JupyterDeps) {
    this.#deps = deps;
    this.sharedKernels = new SharedKernels(deps.log);
  }

  /** @throws GatewayError */
  async hold(apiKey: string): Promise<HeldConnection> {
    return this.#deps.holdConnection(apiKey).catch((error: { status?: number; message: string }) => {
      throw error.status === undefined ? error : new GatewayError(error.status, error.message);
    });
  }

  get version(): string {
    return this.#deps.version;
  }

  get log(): Logger {
    return this.#deps.log;
  }

  /** @throws GatewayError 401 */
  apiOf(request: IncomingMessage): ApiAccess {
    return { url: this.#deps.apiUrl(), apiKey: apiKeyOf(request), fetch: loopbackFetchFor(request.headers) };
  }

  /** @throws GatewayError 401 */
  clientOf(request: IncomingMessage): Cloche {
    return loopbackClient(this.#deps.apiUrl(), apiKeyOf(request), request.headers);
  }

  /** @throws GatewayError 401 */
  kernelsOf(request: IncomingMessage): Kernels {
    return new Kernels(this.clientOf(request), this.sharedKernels);
  }
}
