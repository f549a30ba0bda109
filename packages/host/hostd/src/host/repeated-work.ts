import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { guestUse } from '@cloche/layout';
import type { Logger } from 'pino';
import { versionOfSource } from '../instance/instance-source.ts';
import type { HostdOptions, HostdServices } from './compose-hostd.ts';
import type { Host } from './open-host.ts';

const SWEEP_INTERVAL_MS = 5000;
/** Time that a layer stays mounted after its last launch, because another one is likely. */
const LAYER_IDLE_MS = 10 * 60_000;
/** Least time between two measurements of the host's firewalls. */
const MEASURE_INTERVAL_MS = 60_000;
/** An hour: often enough that each cache entry in use is recorded once a day. */
const NOTE_INTERVAL_MS = 3_600_000;

/** The work that hostd repeats until it is closed. */
export interface RepeatedWork {
  /** Ends it. `over` resolves when nothing of it is under way. */
  end(): void;
  readonly over: Promise<unknown>;
}

/** Notes the uses of cache entries, and resolves. Repeats that and the sweep from then on. */
export async function repeatWork(
  host: Host,
  parts: HostdServices,
  { config, log }: HostdOptions,
): Promise<RepeatedWork> {
  const { instances, pool, seedDemand, demandFile, networkWatch } = parts;
  const ending = new AbortController();
  const note = () => recordUses(host, parts, config);
  await note();
  const noted = repeatedly(ending.signal, log, note, NOTE_INTERVAL_MS);
  const swept = repeatedly(ending.signal, log, async () => {
    await networkWatch.restoreRules();
    host.layers.closeIdle(LAYER_IDLE_MS);
    await instances.sweep();
    await seedDemand();
    await pool.refresh();
    demandFile.save();
  });
  const measured = measureNetwork(host, parts, ending.signal, log);
  return { end: () => ending.abort(), over: Promise.all([swept, noted, measured]) };
}

/** Measures the host's firewalls once egress answers, and again after changes. */
async function measureNetwork(
  { egress }: Host,
  { networkWatch }: HostdServices,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  await egress.whenReady(signal);
  if (!signal.aborted) await networkWatch.measure(signal);
  await repeatedly(signal, log, () => networkWatch.measureIfChanged(signal), MEASURE_INTERVAL_MS);
}

/** Records what the host still needs of its caches, and removes captured versions and layers that nothing uses. */
async function recordUses(
  { records, parkedDisks }: Host,
  { cacheUse, captured, templates, removal }: HostdServices,
  { guestDir, cacheRetentionMs }: HostdOptions['config'],
): Promise<void> {
  cacheUse.note(guestUse(basename(guestDir)));
  const lives = records.keys().map((key) => records.read(key));
  const ids = lives.flatMap((record) => (record?.source ? [versionOfSource(record.source)] : []));
  // `find` records the use. A version built on the host stays in use while a captured version is based on it.
  for (const id of new Set([...ids, ...parkedDisks.versions(), ...captured.bases()])) await templates.find(id);
  await removal.removeUnused(cacheRetentionMs);
  captured.removeUnusedLayers();
}

async function repeatedly(
  signal: AbortSignal,
  log: Logger,
  act: () => Promise<void>,
  intervalMs = SWEEP_INTERVAL_MS,
): Promise<void> {
  while (!signal.aborted) {
    await delay(intervalMs, undefined, { signal, ref: false }).catch(() => {});
    if (!signal.aborted) await act().catch((err) => log.error({ operation: 'sweep', outcome: 'failed', err }));
  }
}
