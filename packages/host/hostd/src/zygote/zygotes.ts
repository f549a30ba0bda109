import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { GUEST_PATH } from '@cloche/layout';
import { BackOff, reportFailure } from '@cloche/node-support';
import type { LaunchSource } from '@cloche/protocol';
import type { Logger } from 'pino';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import { bindReadOnly, bindReadOnlyIn, detachMount } from '../linux/mounts.ts';
import { openNamespaces, type ProcessIdentity } from '../linux/process-identity.ts';
import { hasOwnZygote, type LaunchableVersion } from '../storage/launchable-versions.ts';
import { ZygoteProcess } from './zygote-process.ts';
import { namespacesToEnter, zygoteSetup } from './zygote-setup.ts';

const PAUSES = { firstMs: 100, longestMs: 30_000 };
/** Lifetime from which a zygote that ended is restarted after the shortest pause. */
const STABLE_MS = 60_000;
/** Zygotes at a time; each holds about 100 MB. */
export const MAX_ZYGOTES = 4;
/**
 * Lifetime of a zygote, after which another one replaces it. Kernels of one zygote share the random values that the C
 * library chose at its start (stack canary, pointer guard, memory layout). Values that one sandbox reads from its own
 * kernel help an attack on another one for this long at most. A shorter lifetime costs memory: kernels keep the pages
 * of their zygote.
 */
const LIFE_MS = 6 * 3_600_000;

export interface ZygotesOptions {
  cgroups: Cgroups;
  guestDir: string;
  /** Folder of mount points, visible only in hostd's own mount namespace. */
  mountsDir: string;
  timeNamespace: boolean;
  log?: Logger;
  lifeMs?: number;
}

/** Instance that a kernel is forked into; a part of its record. */
export interface ForkTarget {
  source: LaunchSource;
  init: ProcessIdentity;
}

/** Loaded interpreters, one for each template version in use, which are forked into sandboxes. */
export class Zygotes {
  readonly #options: ZygotesOptions;
  readonly #setup: string;
  readonly #supervisors = new Map<string, ZygoteSupervisor>();
  readonly #stops = new Set<Promise<void>>();
  #isClosed = false;

  constructor(options: ZygotesOptions) {
    this.#options = options;
    this.#setup = zygoteSetup(options.timeNamespace);
  }

  /**
   * Starts the zygote of a template version, if the version supports one, without waiting for it. Idempotent; without
   * effect after `close`.
   */
  prepare(template: LaunchableVersion): void {
    if (this.#isClosed) return;
    const { id } = template.manifest;
    const { rootfsDir } = template;
    if (this.#supervisors.has(id) || rootfsDir === undefined || hasOwnZygote(template)) return;
    if (!canFork(rootfsDir, template, this.#options.guestDir)) return;
    const [oldest] = this.#supervisors;
    if (this.#supervisors.size >= MAX_ZYGOTES && oldest !== undefined) this.#stop(...oldest);
    this.#supervisors.set(id, new ZygoteSupervisor(id, rootfsDir, this.#setup, this.#options));
  }

  /** Returns whether a kernel could be forked for that template version now. */
  serves(templateVersionId: string): boolean {
    return this.#supervisors.get(templateVersionId)?.serving !== undefined;
  }

  /** Resolves when the first zygote of a template version is ready; rejects when there will be none. */
  async ready(templateVersionId: string): Promise<void> {
    const supervisor = this.#supervisors.get(templateVersionId);
    if (supervisor === undefined) throw new Error(`${templateVersionId} has no zygote`);
    await supervisor.ready;
  }

  /**
   * Forks a Python kernel into a live instance; the kernel connects to the agent. Rejects when no zygote is ready: the
   * agent can always start a kernel itself.
   */
  async fork(key: InstanceKey, { init, source }: ForkTarget): Promise<void> {
    const templateVersionId = versionOfSource(source);
    const zygote = this.#supervisors.get(templateVersionId)?.serving;
    if (zygote === undefined) throw new Error(`no zygote serves ${templateVersionId}`);
    assertNoSetIdDumps();
    const fds = openNamespaces(init, namespacesToEnter(this.#options.timeNamespace));
    try {
      fds.push(...this.#options.cgroups.openForFork(key));
      await zygote.fork({ kernelId: randomUUID(), fds });
    } finally {
      for (const fd of fds) closeSync(fd);
    }
  }

  /** Stops all zygotes. Forked kernels keep running. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const [id, supervisor] of this.#supervisors) this.#stop(id, supervisor);
    await Promise.all(this.#stops);
  }

  /** Begins to stop a zygote, without waiting for it. */
  #stop(id: string, supervisor: ZygoteSupervisor): void {
    this.#supervisors.delete(id);
    const stopped = supervisor.stop().finally(() => this.#stops.delete(stopped));
    this.#stops.add(stopped);
  }
}

/**
 * SECURITY: a process that changes its user becomes as dumpable as this setting allows. With 1, a sandbox's root could
 * trace a kernel that is entering the sandbox and still has capabilities and descriptors of the host (zygotes.test.ts).
 */
export function assertNoSetIdDumps(setting = readFileSync('/proc/sys/fs/suid_dumpable', 'utf8')): void {
  if (setting.trim() === '1') throw new Error('fs.suid_dumpable is 1: no kernel is forked into a sandbox');
}

/** Makes the mount points different: the zygote of a version can be started while an earlier one is being stopped. */
let supervisorCount = 0;

/** Supervises the zygote of one template version: restarts and replaces it. */
class ZygoteSupervisor {
  readonly #options: ZygotesOptions;
  readonly #rootDir: string;
  readonly #stopping = new AbortController();
  readonly #supervised: Promise<void>;
  readonly #ready = Promise.withResolvers<void>();
  readonly #running = new Set<ZygoteProcess>();
  #serving: ZygoteProcess | undefined;

  constructor(id: string, rootfsDir: string, setup: string, options: ZygotesOptions) {
    this.#options = options;
    supervisorCount += 1;
    this.#rootDir = join(options.mountsDir, `zygote-${id}-${supervisorCount}`);
    this.ready.catch(() => undefined);
    // Without a zygote, agents start kernels themselves.
    this.#supervised = this.#supervise(rootfsDir, setup).catch((err) => {
      options.log?.error({ operation: 'zygote', outcome: 'failed', root: this.#rootDir, err });
      this.#ready.reject(err);
    });
  }

  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get serving(): ZygoteProcess | undefined {
    return this.#serving;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#running].map((zygote) => zygote.stop()));
    await this.#supervised;
  }

  async #supervise(rootfsDir: string, setup: string): Promise<void> {
    const { log, guestDir } = this.#options;
    const { signal } = this.#stopping;
    mkdirSync(this.#rootDir, { mode: 0o711 });
    bindReadOnly(rootfsDir, this.#rootDir);
    bindReadOnlyIn(this.#rootDir, guestDir, GUEST_PATH);
    const backOff = new BackOff(PAUSES);
    while (!signal.aborted) {
      const startedAt = performance.now();
      const errorOutput = await this.#runOne(setup);
      if (errorOutput === undefined) continue;
      const lastedMs = performance.now() - startedAt;
      if (signal.aborted) break;
      log?.error({ operation: 'zygote', outcome: 'ended', root: this.#rootDir, lastedMs, errorOutput });
      if (lastedMs > STABLE_MS) backOff.reset();
      await backOff.pause(signal, { ref: false });
    }
    this.#ready.reject(new Error('the zygote was stopped'));
    detachMount(join(this.#rootDir, GUEST_PATH));
    detachMount(this.#rootDir);
    rmdirSync(this.#rootDir);
  }

  /**
   * Resolves with the zygote's last error output when it has ended, or with undefined when it is time to replace it.
   */
  async #runOne(setup: string): Promise<string | undefined> {
    const { log, lifeMs = LIFE_MS } = this.#options;
    const startedAt = performance.now();
    const zygote = new ZygoteProcess(this.#rootDir, setup);
    this.#running.add(zygote);
    zygote.ready.then(
      () => {
        const predecessor = this.#serving;
        this.#serving = zygote;
        this.#ready.resolve();
        log?.info({ operation: 'zygote', outcome: 'ready', durationMs: Math.round(performance.now() - startedAt) });
        predecessor?.retire().catch(reportFailure);
      },
      () => undefined,
    );
    const hasEnded = new AbortController();
    const ended = zygote.ended.then((errorOutput) => {
      hasEnded.abort();
      this.#running.delete(zygote);
      if (this.#serving === zygote) this.#serving = undefined;
      return errorOutput;
    });
    const life = delay(lifeMs, undefined, { signal: hasEnded.signal, ref: false }).catch(() => ended);
    return Promise.race([ended, life]);
  }
}

function canFork(rootfsDir: string, { manifest }: LaunchableVersion, guestDir: string): boolean {
  const needed = [join(rootfsDir, 'usr/bin/python3'), join(guestDir, 'python/cloche_zygote')];
  return manifest.languages.includes('python') && needed.every((path) => existsSync(path));
}
