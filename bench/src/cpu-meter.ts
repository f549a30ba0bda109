import { globSync, readFileSync } from 'node:fs';
import type { Service } from './subject.ts';

/** Processor time and waiting time of a process for each unit of work, in milliseconds. */
export interface Share {
  readonly computedMs: number;
  /** Time in which the process was ready to run while others ran: the delay that a busy machine adds. */
  readonly waitedMs: number;
}

/** Measures the processor time of this process, the server and all sandboxes of an installation, threads included. */
export class CpuMeter {
  readonly #service: Service;

  constructor(service: Service) {
    this.#service = service;
  }

  /**
   * Returns each process's share for each of the `count` units of `work`. Leaves out shares below a hundredth of a
   * millisecond.
   */
  async during(count: number, work: () => Promise<unknown>): Promise<Map<string, Share>> {
    const before = this.#read();
    await work();
    const shares = new Map<string, Share>();
    for (const [name, after] of this.#read()) {
      const { computedMs, waitedMs } = before.get(name) ?? NOTHING;
      const share = {
        computedMs: (after.computedMs - computedMs) / count,
        waitedMs: (after.waitedMs - waitedMs) / count,
      };
      if (share.computedMs >= 0.01) shares.set(name, share);
    }
    return shares;
  }

  #read(): Map<string, Share> {
    const sums = new Map<string, Share>();
    const add = (name: string, pid: number | undefined) => {
      const { computedMs, waitedMs } = sums.get(name) ?? NOTHING;
      const more = scheduled(pid);
      sums.set(name, { computedMs: computedMs + more.computedMs, waitedMs: waitedMs + more.waitedMs });
    };
    add('client', process.pid);
    add('server', this.#service.pids.server);
    add('hostd', this.#service.pids.hostd);
    for (const pid of this.#pidsOfSandboxes()) add(nameOf(pid), pid);
    return sums;
  }

  #pidsOfSandboxes(): number[] {
    const files = globSync(`/sys/fs/cgroup/{,*/}cloche-${this.#service.installationId}/**/cgroup.procs`);
    return [...new Set(files.flatMap((file) => readIfThere(file).split('\n').filter(Boolean).map(Number)))];
  }
}

const NOTHING: Share = { computedMs: 0, waitedMs: 0 };

function scheduled(pid: number | undefined): Share {
  let share = NOTHING;
  for (const file of globSync(`/proc/${pid}/task/*/schedstat`)) {
    const [computed = 0, waited = 0] = readIfThere(file).split(' ').map(Number);
    share = { computedMs: share.computedMs + computed / 1e6, waitedMs: share.waitedMs + waited / 1e6 };
  }
  return share;
}

function nameOf(pid: number): string {
  const command = readIfThere(`/proc/${pid}/cmdline`);
  if (/\/agent\.\w+\0/.test(command)) return command.includes('tini') ? 'init' : 'agent';
  if (command.includes('python')) return 'Python kernel';
  return command.includes('kernel-js') ? 'JavaScript kernel' : 'others';
}

/** Returns an empty text when the file is gone: processes and their threads may end between listing and reading. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
