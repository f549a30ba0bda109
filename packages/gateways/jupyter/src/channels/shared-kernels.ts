import type { Logger } from 'pino';
import { SharedKernel } from './shared-kernel.ts';

/** Kernels that are kept although no client is connected. */
const MAX_EMPTY = 1000;
const REPLAY_BYTES = 64 * 1024 * 1024;

/** The kernels that clients of this server have used. Deciding who may use one is left to `/v1`. */
export class SharedKernels {
  readonly #kernels = new Map<string, SharedKernel>();
  readonly #space = { left: REPLAY_BYTES };
  /** Ids of kernels by sandbox. A lost entry costs one request. */
  readonly known = new Map<string, string>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  find(kernelId: string): SharedKernel | undefined {
    return this.#kernels.get(kernelId);
  }

  open(kernelId: string): SharedKernel {
    const kernel = this.#kernels.get(kernelId) ?? new SharedKernel(this.#space, this.#log);
    // The last one in the map was used last.
    this.#kernels.delete(kernelId);
    this.#kernels.set(kernelId, kernel);
    if (this.#kernels.size > MAX_EMPTY) this.#dropOldest();
    return kernel;
  }

  async remove(kernelId: string): Promise<void> {
    const kernel = this.#kernels.get(kernelId);
    this.#kernels.delete(kernelId);
    await kernel?.close();
  }

  useOf(kernelId: string): { connections: number; lastActivity: string | undefined; isBusy: boolean } {
    const { connections = 0, lastActivity, isBusy = false } = this.#kernels.get(kernelId) ?? {};
    return { connections, lastActivity, isBusy };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#kernels.keys()].map((kernelId) => this.remove(kernelId)));
  }

  #dropOldest(): void {
    const unused = [...this.#kernels].find(([, kernel]) => kernel.connections === 0 && !kernel.isBusy);
    if (!unused) return;
    const [kernelId] = unused;
    this.remove(kernelId).catch((err: unknown) =>
      this.#log.error({ err }, 'a kernel without clients was not forgotten'),
    );
  }
}
