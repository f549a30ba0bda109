import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { Deadline, orAbort } from '../../../packages/shared/node-support/src/index.ts';
import type { RootDisk } from './disks.ts';

/**
 * How the processor is had: by the host's kernel, or by translating each instruction, which takes ten times as long.
 */
export type Accelerator = 'kvm' | 'tcg';
const ACCELERATION: Readonly<Record<Accelerator, readonly string[]>> = {
  kvm: ['-accel', 'kvm', '-cpu', 'host'],
  // With the memory protection keys that qemu emulates, V8 aborts (`Check failed: it->second.Size() > offset`).
  tcg: ['-accel', 'tcg,thread=multi,tb-size=1024', '-cpu', 'max,pku=off'],
};
/**
 * `tsc`: the counter of processors is as exact as the host's, and reading another clock takes a hundred times as long.
 * `mitigations`: nothing in the machine is secret, and each change of page tables empties a cache of translations.
 */
const KERNEL_OPTIONS = [
  ...['root=/dev/vda', 'rw', 'console=ttyS0', 'systemd.journald.forward_to_console=1', 'net.ifnames=0'],
  ...['tsc=reliable', 'mitigations=off'],
].join(' ');
/** After the time limit of a command, the shell in the machine ends it and says so. */
const ANSWER_MS = 120_000;

export interface VirtualMachineOptions {
  readonly accelerator: Accelerator;
  readonly root: RootDisk;
  readonly content: string;
  /** File that gets what kernel and systemd print. */
  readonly consoleFile: string;
}

export interface CommandResult {
  /** Exit status; 124 if the time limit ended the command. */
  readonly status: number;
  /** Standard output and standard error. */
  readonly output: string;
}

/**
 * A virtual machine without a network. Its disks keep nothing: what it writes goes into files without a name, which end
 * with it. It ends with this process, however this ends.
 */
export class VirtualMachine {
  readonly accelerator: Accelerator;
  readonly #qemu: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #chunks: AsyncIterator<string>;
  #received = '';
  #errors = '';

  constructor({ accelerator, root, content, consoleFile }: VirtualMachineOptions) {
    this.accelerator = accelerator;
    const drive = (file: string) => ['-drive', `file=${file},if=virtio,format=raw,snapshot=on,cache=unsafe`];
    const args = [
      ...[
        '-nodefaults',
        '-no-user-config',
        '-display',
        'none',
        ...ACCELERATION[accelerator],
        '-smp',
        '2',
        '-m',
        '4096',
      ],
      ...['-kernel', root.kernel, '-initrd', root.initrd, '-append', KERNEL_OPTIONS],
      ...drive(root.disk),
      ...drive(content),
      ...['-netdev', 'user,id=card,restrict=on', '-device', 'virtio-net-pci,netdev=card', '-device', 'virtio-rng-pci'],
      ...['-chardev', 'stdio,id=commands,signal=off', '-device', 'virtio-serial-pci'],
      ...['-device', 'virtserialport,chardev=commands,name=commands', '-serial', `file:${consoleFile}`],
    ];
    this.#qemu = spawn('setpriv', ['--pdeathsig', 'KILL', 'nice', '-n', '5', 'qemu-system-x86_64', ...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, TMPDIR: '/var/tmp' },
    });
    this.#qemu.on('error', (error) => (this.#errors += error.message));
    this.#qemu.stdin.on('error', () => undefined);
    this.#qemu.stderr.on('error', () => undefined).on('data', (chunk) => (this.#errors += chunk));
    this.#chunks = this.#qemu.stdout
      .on('error', () => undefined)
      .setEncoding('utf8')
      [Symbol.asyncIterator]();
  }

  /** Waits until the machine takes commands, after its start or during a reboot. */
  async booted(withinMs: number): Promise<void> {
    using deadline = new Deadline(withinMs);
    await this.#until(/ready\0/, deadline.signal);
  }

  async reboot(withinMs: number): Promise<void> {
    this.#send('systemctl reboot', 60_000);
    await this.booted(withinMs);
  }

  /**
   * Runs a script of bash as root.
   *
   * @param limitMs time after which the script is ended
   */
  async run(script: string, limitMs: number, onOutput?: (text: string) => void): Promise<CommandResult> {
    this.#send(script, limitMs);
    using deadline = new Deadline(limitMs + ANSWER_MS);
    const [output, status] = await this.#until(/\0(\d+)\n/, deadline.signal, onOutput);
    return { output, status: Number(status) };
  }

  #send(script: string, limitMs: number): void {
    this.#qemu.stdin.write(`${Math.ceil(limitMs / 1000)} ${Buffer.from(script).toString('base64')}\n`);
  }

  /** Returns what arrives before `end`, and the group of its match. */
  async #until(end: RegExp, signal: AbortSignal, onOutput?: (text: string) => void): Promise<[string, string]> {
    for (let shown = 0; ; ) {
      const found = end.exec(this.#received);
      const upTo = found?.index ?? this.#received.length;
      if (upTo > shown) onOutput?.(this.#received.slice(shown, upTo));
      shown = upTo;
      if (found) {
        const output = this.#received.slice(0, upTo);
        this.#received = this.#received.slice(upTo + found[0].length);
        return [output, found[1] ?? ''];
      }
      const { value, done } = await orAbort(this.#chunks.next(), signal);
      if (done) throw new Error(`The virtual machine has ended. ${this.#errors}`);
      this.#received += value;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#qemu.exitCode !== null || this.#qemu.signalCode !== null) return;
    const ended = once(this.#qemu, 'exit');
    this.#qemu.kill('SIGKILL');
    await ended;
  }
}
