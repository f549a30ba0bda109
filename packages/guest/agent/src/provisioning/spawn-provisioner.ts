import type { Language } from '@cloche/protocol';
import { NO_PROCESS_LEFT } from '../base/agent-error.ts';
import type { AgentConfig } from '../config.ts';
import { KernelProcess } from '../kernels/kernel-process.ts';
import type { KernelOptions, KernelSettings } from '../kernels/start-kernel.ts';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import { kernelCommand } from './kernel-command.ts';
import type { KernelRequest } from './kernel-provisioner.ts';

/** Processes and threads of a kernel that is ready, and a few for its first run. */
const TASKS_OF_KERNEL: Readonly<Record<Language, number>> = { python: 4, javascript: 10, typescript: 10 };

/** A request for a kernel whose environment is known. */
export interface NewKernelRequest extends Pick<KernelRequest, 'listener' | 'room' | 'kernelWaitMs'> {
  place: KernelSettings;
}

/** Starts each kernel as a new process. */
export class SpawnProvisioner {
  readonly #config: AgentConfig;
  readonly #group: KernelsGroup;
  readonly #onBusy: (busy: boolean) => void;

  constructor(config: AgentConfig, group: KernelsGroup, onBusy: (busy: boolean) => void) {
    this.#config = config;
    this.#group = group;
    this.#onBusy = onBusy;
  }

  countRefusals(): number {
    return this.#group.countRefusals();
  }

  hasProcessesFor(language: Language): boolean {
    return this.#group.hasRoomFor(TASKS_OF_KERNEL[language]);
  }

  /**
   * Returns a kernel that is about to be ready. `fork` may supply a forked one instead. Throws `language_unavailable`.
   */
  provision(
    language: Language,
    { place, listener, room }: NewKernelRequest,
    fork: Pick<KernelOptions, 'takeForked' | 'onMismatch'> = {},
  ): KernelProcess {
    const waitUntilPossible = async () => {
      await room;
      // A kernel started without processes left would die in its first run, or disturb the code that uses them.
      if (!this.hasProcessesFor(language)) throw new Error(NO_PROCESS_LEFT);
    };
    const command = kernelCommand(language, this.#config);
    const { uid, gid } = this.#config;
    const [group, onBusy] = [this.#group, this.#onBusy];
    return new KernelProcess({ command, place, uid, gid, group, waitUntilPossible, onBusy, ...fork }, listener);
  }
}
