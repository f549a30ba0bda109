import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import type { KernelArrivals } from './kernel-arrivals.ts';
import type { Zygote } from './zygote.ts';

/** The zygote of the host. hostd owns it and forks a kernel for each context that it opens. */
export class HostZygote implements Zygote {
  readonly isComing = true;
  readonly #arrivals: KernelArrivals;

  constructor(arrivals: KernelArrivals) {
    this.#arrivals = arrivals;
  }

  /** Returns false: hostd decides when it forks. */
  loadNow(): boolean {
    return false;
  }

  fork(waitMs: number): Promise<ForkedKernel | undefined> {
    return this.#arrivals.take(waitMs);
  }

  giveUp(): void {
    this.#arrivals.giveUp();
  }

  recordRequest(): void {}

  recordUse(): void {}

  noteBusy(): void {}

  noteMismatch(): void {}

  release(): boolean {
    return false;
  }

  async close(): Promise<void> {}
}
