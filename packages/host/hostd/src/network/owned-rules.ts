import { readdirSync } from 'node:fs';
import koffi from 'koffi';
import { bindLibc, checked } from '../linux/libc.ts';

const fcntlCall = bindLibc('int fcntl(int fd, int command, int argument)');
const F_SETFD = 2;
const FD_CLOEXEC = 1;
const STDERR = 2;

/**
 * Rules in a table with `flags owner`: the kernel lets no other process change or flush it, not even with `nft flush
 * ruleset`, and removes it when this process ends for any reason. That needs a netlink socket of this process, hence
 * the library of `nft` instead of the program.
 */
export class OwnedRules implements Disposable {
  readonly #library = bindLibrary();
  readonly #context: unknown;

  constructor() {
    const context: unknown = this.#library.create(0);
    if (context === null) throw new Error('libnftables gives no context');
    this.#context = context;
    // SECURITY: the library leaves its socket open for the programs that hostd starts (owned-rules.runtime.test.ts).
    for (const fd of readdirSync('/proc/self/fd').map(Number)) {
      if (fd > STDERR) fcntlCall(fd, F_SETFD, FD_CLOEXEC);
    }
    checked(this.#library.bufferErrors(context), 'nft_ctx_buffer_error');
    checked(this.#library.bufferOutput(context), 'nft_ctx_buffer_output');
  }

  /**
   * Applies the commands as one transaction.
   * @throws Error with nft's message.
   */
  apply(commands: string): void {
    if (this.#library.run(this.#context, commands) === 0) return;
    throw new Error(`nft refused the rules: ${this.#library.takeErrors(this.#context).trim()}`);
  }

  /**
   * Returns what a command such as `list counter` prints.
   * @throws Error with nft's message.
   */
  read(command: string): string {
    // Empties the buffer.
    this.#library.takeOutput(this.#context);
    this.apply(command);
    return this.#library.takeOutput(this.#context);
  }

  [Symbol.dispose](): void {
    this.#library.free(this.#context);
  }
}

function bindLibrary() {
  const library = koffi.load('libnftables.so.1');
  return {
    create: library.func('void *nft_ctx_new(uint32_t flags)'),
    bufferErrors: library.func('int nft_ctx_buffer_error(void *context)'),
    bufferOutput: library.func('int nft_ctx_buffer_output(void *context)'),
    run: library.func('int nft_run_cmd_from_buffer(void *context, const char *commands)'),
    takeOutput: library.func('const char *nft_ctx_get_output_buffer(void *context)'),
    takeErrors: library.func('const char *nft_ctx_get_error_buffer(void *context)'),
    free: library.func('void nft_ctx_free(void *context)'),
  };
}
