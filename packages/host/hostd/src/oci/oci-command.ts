import { execFile } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../linux/libc.ts';
import { detachMount } from '../linux/mounts.ts';
import { runProgram } from '../linux/run-program.ts';
import { SealedProgram } from '../linux/sealed-program.ts';
import type { ResourceLimit } from './resource-limits.ts';

const execute = promisify(execFile);

export interface OciCommandOptions {
  /** The program, by name or absolute path. */
  program: string;
  /** Folder of the runtime's own state. */
  stateDir: string;
  /** Options for each of the runtime's commands. */
  options?: readonly string[];
  /** Resource limits of the runtime's own process, which its containers inherit. */
  limits?: readonly ResourceLimit[];
  /**
   * Runs the program by its path instead of a sealed copy in memory, because it starts parts of itself by that path.
   */
  byPath?: boolean;
}

/** Longest time that the runtime may take. It finishes in milliseconds, so this ends only a hung runtime. */
const TIMEOUT_MS = 30_000;

/** Runs the commands of an OCI runtime. */
export class OciCommand {
  readonly #options: OciCommandOptions;
  readonly #programPath: () => string;

  constructor(options: OciCommandOptions) {
    this.#options = options;
    const sealed = new SealedProgram(options.program);
    this.#programPath = options.byPath ? () => options.program : () => sealed.path();
  }

  /** Returns whether the runtime supports time namespaces; undefined where it cannot list its features. */
  async supportsTimeNamespaces(): Promise<boolean | undefined> {
    try {
      const { stdout } = await execute(this.#options.program, ['features']);
      return JSON.parse(stdout).linux?.namespaces?.includes('time') ?? false;
    } catch {
      return undefined;
    }
  }

  /**
   * Creates a container and returns the id of its first process, which inherits `forAgent` after its standard streams.
   */
  async create(
    id: string,
    bundleDir: string,
    { console, forAgent = [] }: { console: readonly number[]; forAgent?: readonly number[] },
  ): Promise<number> {
    const pidFile = join(bundleDir, 'init.pid');
    const preserve = forAgent.length === 0 ? [] : ['--preserve-fds', String(forAgent.length)];
    const command = ['create', '--bundle', bundleDir, '--pid-file', pidFile, ...preserve, id];
    await this.#run(command, { log: join(bundleDir, 'runtime.log'), descriptors: [...console, ...forAgent] });
    return Number(readFileSync(pidFile, 'utf8'));
  }

  /** Starts the first process of a created container. */
  async start(id: string, bundleDir: string): Promise<void> {
    await this.#runAlone(['start', id], bundleDir);
  }

  /**
   * Kills the first process of a container through the runtime, so that a runtime with its own kernel can first write
   * back the files that it has cached.
   */
  async killFirst(id: string, bundleDir: string): Promise<void> {
    await this.#runAlone(['kill', id, 'KILL'], bundleDir);
  }

  /**
   * Removes the runtime's state of a container whose processes are gone. Idempotent. A runtime that crashed while it
   * wrote its state cannot read it and always refuses; then the files named after the container are removed.
   */
  async delete(id: string, bundleDir: string): Promise<void> {
    try {
      await this.#runAlone(['delete', '--force', id], bundleDir);
    } catch {
      const { stateDir } = this.#options;
      const remains = existsSync(stateDir) ? readdirSync(stateDir).filter((name) => isOf(name, id)) : [];
      for (const name of remains) rmSync(join(stateDir, name), { recursive: true, force: true });
    }
  }

  /** Removes a file of the runtime's folder, and the mounts on it. Idempotent. */
  removeSharedMount(name: string): void {
    const path = join(this.#options.stateDir, name);
    if (!existsSync(path)) return;
    // Simultaneous launches may each have mounted it. Mounts of an earlier hostd ended with its mount namespace.
    let isMounted = true;
    while (isMounted) isMounted = detachOne(path);
    rmSync(path, { force: true });
  }

  async #runAlone(command: readonly string[], bundleDir: string): Promise<void> {
    const nothing = openSync('/dev/null', 'r+');
    try {
      // After a crash the bundle may be missing.
      const log = existsSync(bundleDir) ? join(bundleDir, 'runtime.log') : '/dev/null';
      await this.#run(command, { log, descriptors: [nothing, nothing, nothing] });
    } finally {
      closeSync(nothing);
    }
  }

  /** Runs a command to its end. Throws the last line of its log when it fails. */
  async #run(
    command: readonly string[],
    { log, descriptors }: { log: string; descriptors: readonly number[] },
  ): Promise<void> {
    const { program, stateDir, options = [], limits = [] } = this.#options;
    const limited = limits.length === 0 ? [] : ['prlimit', ...limits.map(asOption)];
    // The runtime dies with this process: a container that it creates after hostd has ended would have no owner.
    const tied = ['--pdeathsig', 'KILL', '--', ...limited, this.#programPath(), '--root', stateDir, '--log', log];
    const { code, signal } = await runProgram({
      file: 'setpriv',
      args: [...tied, ...options, ...command],
      env: { PATH: process.env.PATH ?? '' },
      descriptors,
      timeoutMs: TIMEOUT_MS,
    });
    if (code === 0) return;
    const end = signal === undefined ? code : `signal ${signal}`;
    throw new Error(`${program} ${command[0]} ended with ${end}: ${lastLine(log)}`);
  }
}

/**
 * Returns whether a file or folder is state of a container. The id of another generation may begin with the same one.
 */
function isOf(name: string, id: string): boolean {
  return new RegExp(`${id}(?!\\d)`).test(name);
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

/** Detaches the uppermost mount. Returns whether there was one. */
function detachOne(path: string): boolean {
  try {
    detachMount(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EINVAL') return false;
    throw error;
  }
}
