import { chmodSync, chownSync, rmSync } from 'node:fs';
import { collectGarbageWhenIdle } from '@cloche/node-support';
import { AGENT_PROTOCOL_VERSION, HOSTD_PROTOCOL_VERSION } from '@cloche/protocol';
import type { Logger } from 'pino';
import { createApp } from '../http/app.ts';
import { LockWatch } from '../locks/lock-watch.ts';
import { memoryMetrics } from '../memory/memory-metrics.ts';
import { poolMetrics } from '../pool/pool-metrics.ts';
import type { WarmPool } from '../pool/warm-pool.ts';
import { FairScheduler } from '../processor/fair-scheduler.ts';
import { composeHostd, type HostdOptions, type HostdServices, liveKeys } from './compose-hostd.ts';
import type { HostdConfig } from './config.ts';
import { closeHost, type Host, openHost } from './open-host.ts';
import { repeatWork } from './repeated-work.ts';

export interface Hostd {
  /**
   * Stops accepting requests and undoes the launches under way. Sandboxes keep running; if there are none, all of
   * hostd's resources are removed from the host.
   */
  close(): Promise<void>;
}

/** Starts hostd and resolves when it serves on its socket. Removes what an earlier hostd left half done first. */
export async function startHostd(options: HostdOptions): Promise<Hostd> {
  const { config, log } = options;
  const host = await openHost(config, log);
  const keys = () => liveKeys(host);
  // Before any process is started, because processes inherit their time slice from this one.
  const scheduler = new FairScheduler({ groups: host.processor, keys, log });
  const parts = composeHostd(host, options);
  const { instances, captures, measurements, pool } = parts;
  await instances.sweep();
  instances.takeOver();
  host.frozen.open(keys());
  host.egress.open(instances.gated());
  measurements.open();

  const app = openApp(host, parts, config, log);
  // First, because the seed forgets the kinds of templates that no longer exist.
  parts.demandFile.load();
  await parts.seedDemand();
  openOnRequest(app, pool);
  await listen(app, config);
  const tidying = collectGarbageWhenIdle(app.server, config.idleTidyingMs);
  const lockWatch = new LockWatch({ groups: host.cgroups, keys, log });
  const work = await repeatWork(host, parts, options);

  return {
    close: async () => {
      work.end();
      instances.abortLaunches();
      captures.abort();
      parts.networkWatch.abort();
      // Kernels are closed together with the requests: a fork into a sandbox that has just ended would keep its request
      // open for five seconds, and so delay the next hostd.
      await Promise.all([app.close(), host.kernels.close(), host.frozen.close()]);
      tidying.stop();
      scheduler.close();
      await Promise.all([work.over, lockWatch.close(), measurements.close()]);
      await parts.networkWatch.close();
      parts.demandFile.save();
      await Promise.all([pool.close(), instances.settled()]);
      await instances.sweep();
      host.runtime.close();
      await host.egress.close();
      if (instances.list().length === 0) await closeHost(host);
    },
  };
}

function openApp(host: Host, parts: HostdServices, config: HostdConfig, log: Logger): ReturnType<typeof createApp> {
  const { maker, pool, networkWatch, parking } = parts;
  const { installationId, ociRuntime } = config;
  const protocols = { protocolVersion: HOSTD_PROTOCOL_VERSION, agentProtocolVersion: AGENT_PROTOCOL_VERSION };
  const isolation = host.runtime.claims;
  const abilities = { freeze: host.cgroups.freezer.isAvailable, keepsDisks: parking.isAvailable };
  const identity = { ...protocols, installationId, ociRuntime, isolation, ...abilities };
  return createApp({
    ...parts,
    recordLanguage: (language) => maker.recordLanguage(language),
    noteBusyClaim: () => pool.noteBusyClaim(),
    health: () => ({ status: 'ready', ...identity, pool: pool.state(), warnings: networkWatch.warnings }),
    measureNetwork: (signal) => networkWatch.measure(signal),
    metrics: async () =>
      poolMetrics(pool.state()) + memoryMetrics(await host.frozen.recentBytes()) + (await host.egress.metrics()),
    log,
  });
}

/**
 * Opens the pool at the first request of a server, which asks for the template versions while it starts. On a small
 * machine, server and pool would otherwise compete for the processor, and the service would answer later. Other clients
 * ask only for the health.
 */
function openOnRequest(app: ReturnType<typeof createApp>, pool: WarmPool): void {
  let isOpen = false;
  app.addHook('onRequest', async ({ url }) => {
    if (isOpen || url === '/health') return;
    isOpen = true;
    pool.open();
  });
}

async function listen(app: ReturnType<typeof createApp>, { run, service }: HostdConfig): Promise<void> {
  // A killed hostd leaves its socket. The lock ensures that no other hostd uses it now.
  rmSync(run.hostdSocket, { force: true });
  await app.listen({ path: run.hostdSocket });
  chownSync(run.hostdSocket, 0, service.gid);
  chmodSync(run.hostdSocket, 0o660);
}
