import type { CurrentSandboxMetrics, SandboxId, SandboxMeasurement, SandboxMetrics } from '@cloche/contract';
import { AgentError, LaunchError, type MeasuredInstance, type Metering } from '@cloche/runtime';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import type { Call } from '../../platform/call/call.ts';
import { hostError } from '../sandbox-records/agent-failures.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';

const MEBIBYTE = 1024 * 1024;
/** Interval of the samples that hosts keep. */
const INTERVAL_MS = 10_000;

export interface MeasureSandboxesDeps {
  readonly sandboxes: Pick<SandboxRepository, 'list'>;
  readonly projects: ProjectAccess;
  readonly sandboxUse: Pick<SandboxUse, 'ready' | 'explain'>;
  readonly metering: Metering;
}

/** Measures the resource usage of sandboxes. Measuring wakes no process in a sandbox and does not count as activity. */
export class MeasureSandboxes {
  readonly #deps: MeasureSandboxesDeps;

  constructor(deps: MeasureSandboxesDeps) {
    this.#deps = deps;
  }

  /** Waits until the sandbox is launched. @throws AppError as `SandboxUse.ready` does, `unavailable` without its host */
  async get({ credential, signal }: Call, sandboxId: SandboxId, fromMs: number): Promise<SandboxMetrics> {
    const { sandboxUse, metering } = this.#deps;
    const sandbox = await sandboxUse.ready({ credential, sandboxId }, { signal, wakes: false });
    try {
      const { now, samples } = await metering.history(sandbox.instance, fromMs, signal);
      if (!now && !factsOf(sandbox).isShownPaused) throw new AgentError('gone', 'the host has no such instance');
      return {
        ...current(sandbox, now ?? nothing(sandbox)),
        intervalMs: INTERVAL_MS,
        samples: samples.map(measurement),
      };
    } catch (error) {
      throw await sandboxUse.explain(sandbox, error, signal);
    }
  }

  /**
   * @throws AppError `not_found` and `forbidden` for a `projectId` that the key cannot use, `unavailable` without a
   * host
   */
  async list(
    { credential, signal }: Call,
    { projectId, limit }: { projectId?: string | undefined; limit: number },
  ): Promise<{ data: CurrentSandboxMetrics[]; hasMore: boolean }> {
    const { sandboxes, projects, metering } = this.#deps;
    const { orgId } = credential;
    const projectIds = await projects.listed(credential, projectId);
    const live = await sandboxes.list({ orgId, projectIds, status: 'ready' }, { limit: limit + 1 });
    const shown = new Map(live.slice(0, limit).map((record) => [nameOf(record), record]));
    try {
      const instances = [...shown.values()].map(({ id, generation }) => ({ sandboxId: id, generation }));
      const measured = instances.length === 0 ? [] : await metering.measure(instances, signal);
      const byName = new Map(measured.map((one) => [`${one.sandboxId}/${one.generation}`, one]));
      const data = [...shown].flatMap(([name, record]) => {
        const now = byName.get(name) ?? (factsOf(record).isShownPaused ? nothing(record) : undefined);
        return now ? [current(record, now)] : [];
      });
      return { data, hasMore: live.length > limit };
    } catch (error) {
      throw error instanceof LaunchError ? hostError(error) : error;
    }
  }
}

function nameOf({ id, generation }: SandboxRecord): string {
  return `${id}/${generation}`;
}

/** Returns the measurement of a paused sandbox that has no instance. */
function nothing({ id, generation }: SandboxRecord): MeasuredInstance {
  const measurement = { at: Date.now(), cpu: 0, memoryBytes: 0, egressBytes: 0, ingressBytes: 0 };
  return { sandboxId: id, generation, measurement };
}

function current(record: SandboxRecord, measured: MeasuredInstance): CurrentSandboxMetrics {
  const { id, resources } = record;
  const { diskLimitBytes, inodesLimit } = measured;
  const now = measurement(measured.measurement);
  return {
    sandboxId: id,
    limits: {
      cpu: resources.cpu,
      memoryBytes: resources.memoryMb * MEBIBYTE,
      diskBytes: diskLimitBytes ?? resources.diskMb * MEBIBYTE,
      ...(inodesLimit !== undefined && { inodes: inodesLimit }),
      processes: resources.pids,
    },
    // The last interval may have begun before the pause.
    ...(factsOf(record).isShownPaused ? { now: { ...now, cpu: 0 }, paused: true } : { now }),
  };
}

function measurement({
  at,
  egressBytes,
  ingressBytes,
  ...values
}: MeasuredInstance['measurement']): SandboxMeasurement {
  return {
    ...values,
    at: new Date(at).toISOString(),
    networkBytes: { egress: egressBytes, ingress: ingressBytes },
  };
}
