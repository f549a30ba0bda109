import type { Language } from '@cloche/protocol';
import type { KernelProcess } from '../kernels/kernel-process.ts';
import type { NewKernelRequest, SpawnProvisioner } from './spawn-provisioner.ts';
import type { Zygote } from './zygote.ts';

/** Forks Python kernels from a zygote. Starts a process if that fails, and for other languages. */
export class ForkProvisioner {
  readonly #zygote: Zygote;
  readonly #spawn: SpawnProvisioner;

  constructor(zygote: Zygote, spawn: SpawnProvisioner) {
    this.#zygote = zygote;
    this.#spawn = spawn;
  }

  /** Returns a kernel that is about to be ready. Throws `language_unavailable`. */
  provision(language: Language, request: NewKernelRequest): KernelProcess {
    if (language !== 'python') return this.#spawn.provision(language, request);
    return this.#spawn.provision(language, request, {
      takeForked: () => this.#zygote.fork(request.kernelWaitMs),
      onMismatch: () => this.#zygote.noteMismatch(),
    });
  }
}
