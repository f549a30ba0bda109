import { execFile } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, readFileSync, rmSync, unlinkSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../kernel/libc.ts';
import { runProgram } from '../kernel/run-program.ts';
import { SealedProgram } from '../kernel/sealed-program.ts';
import { type ResourceLimit, resourceLimits } from './resource-limits.ts';

const execute = promisify(execFile);

export interface OciRuntimeOptions {
  /** The program, by name or absolute path: crun, runc or runsc. */
  program: string;
  /** Where the runtime keeps its own state. */
  stateDir: string;
}

/** What a container inherits: its standard streams, and what its agent is given. */
export interface InheritedDescriptors {
  console: readonly [stdin: number, stdout: number, stderr: number];
  /** The socket where it answers, then what moves processes to the kernels' group. None where a relay listens. */
  forAgent: readonly number[];
}

/**
 * How gVisor is run. The guest may connect to the sockets that it is shown and make none; its files are those of the
 * root that it is given, whose disk is bounded, and no layer over it in memory. It filters the guest's calls as other
 * runtimes do, before its own kernel sees them.
 */
const RUNSC_OPTIONS = [
  '--network=sandbox',
  '--platform=systrap',
  '--host-uds=open',
  '--overlay2=none',
  '--oci-seccomp',
];

/** Longest that the runtime may take; it is done in milliseconds, so this only ends what hangs. */
const TIMEOUT_MS = 30_000;

/** Starts containers by an OCI runtime. Ends none: killing what is in the cgroup needs no runtime and never fails. */
export class OciRuntime {
  readonly #program: string;
  readonly #sealed: SealedProgram;
  readonly #stateDir: string;

  constructor({ program, stateDir }: OciRuntimeOptions) {
    this.#program = program;
    this.#sealed = new SealedProgram(program);
    this.#stateDir = stateDir;
  }

  /** gVisor: its guests have a kernel of their own, which takes over no listening socket. */
  get isGvisor(): boolean {
    return basename(this.#program) === 'runsc';
  }

  /**
   * runc sets limits on the first process from outside, by a privilege over its user namespace that only the namespace's
   * owner and CAP_SYS_RESOURCE give. It passes on its own instead.
   */
  get inheritsLimits(): boolean {
    return basename(this.#program) === 'runc';
  }

  /** Whether kernel and runtime both give a sandbox clocks of its own. */
  async hasTimeNamespaces(): Promise<boolean> {
    if (!existsSync('/proc/self/ns/time')) return false;
    try {
      const { stdout } = await execute(this.#program, ['features']);
      return JSON.parse(stdout).linux?.namespaces?.includes('time') ?? false;
    } catch {
      // The crun that cannot say what it has, has them.
      return basename(this.#program) === 'crun';
    }
  }

  /** Makes the container up to the point where its first process waits to start, and returns that process's id. */
  async create(id: string, bundleDir: string, { console, forAgent }: InheritedDescriptors): Promise<number> {
    const pidFile = join(bundleDir, 'init.pid');
    const preserve = forAgent.length === 0 ? [] : ['--preserve-fds', String(forAgent.length)];
    const command = ['create', '--bundle', bundleDir, '--pid-file', pidFile, ...preserve, id];
    await this.#run(bundleDir, command, [...console, ...forAgent]);
    return Number(readFileSync(pidFile, 'utf8'));
  }

  async start(id: string, bundleDir: string): Promise<void> {
    if (this.#releaseFirstProcess(id)) return;
    const nothing = openSync('/dev/null', 'r+');
    try {
      await this.#run(bundleDir, ['start', id], [nothing, nothing, nothing]);
    } finally {
      closeSync(nothing);
    }
  }

  /** Forgets a container whose processes are gone. Idempotent. */
  forget(id: string): void {
    const names = this.isGvisor ? [`${id}_sandbox:${id}.state`, `${id}_sandbox:${id}.lock`, `runsc-${id}.sock`] : [id];
    for (const name of names) rmSync(join(this.#stateDir, name), { recursive: true, force: true });
  }

  /**
   * What `crun start` comes down to, without the two programs that it takes: the first process waits at this pipe for a
   * byte. False where nobody waits there, as with other runtimes: then it is for the runtime to say what is the matter.
   */
  #releaseFirstProcess(id: string): boolean {
    const pipe = join(this.#stateDir, id, 'exec.fifo');
    if (basename(this.#program) !== 'crun') return false;
    let fd: number;
    try {
      fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENXIO') return false;
      throw error;
    }
    try {
      // As long as it is there, crun takes the container for one that was not started.
      unlinkSync(pipe);
      writeSync(fd, '\0');
      return true;
    } finally {
      closeSync(fd);
    }
  }

  async #run(bundleDir: string, command: readonly string[], descriptors: readonly number[]): Promise<void> {
    const log = join(bundleDir, 'runtime.log');
    // gVisor starts its own parts by its path.
    const program = this.isGvisor ? this.#program : this.#sealed.path();
    // A container made for a hostd that is gone would be nobody's, so the runtime dies with the one that called it.
    const limits = this.inheritsLimits ? ['prlimit', ...resourceLimits().map(asOption)] : [];
    const tied = ['--pdeathsig', 'KILL', '--', ...limits, program, '--root', this.#stateDir, '--log', log];
    const options = this.isGvisor ? RUNSC_OPTIONS : [];
    const { code, signal } = await runProgram({
      file: 'setpriv',
      args: [...tied, ...options, ...command],
      env: { PATH: process.env.PATH ?? '' },
      descriptors,
      timeoutMs: TIMEOUT_MS,
    });
    if (code === 0) return;
    const end = signal === undefined ? code : `signal ${signal}`;
    throw new Error(`${this.#program} ${command[0]} ended with ${end}: ${lastLine(log)}`);
  }
}

function asOption({ name, value }: ResourceLimit): string {
  return `--${name}=${value}:${value}`;
}

function lastLine(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim().split('\n').at(-1) ?? '';
  } catch {
    return 'it wrote no log';
  }
}
