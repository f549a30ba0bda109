import type { RuntimeDriver } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import { WITHOUT_METERING } from '@cloche/runtime/without-parts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import { AskAgents } from '../features/sandboxes/lifecycle/ask-agents.ts';
import { IdleLoad } from '../features/sandboxes/lifecycle/idle-load.ts';
import { Reaper, type ReaperDeps } from '../features/sandboxes/lifecycle/reaper.ts';

export type ReaperParts = Omit<ReaperDeps, 'idleLoad' | 'askAgents'> & {
  readonly driver: RuntimeDriver;
  readonly connections: AgentConnections;
  readonly settings: SandboxSettings;
};

export function composeReaper(parts: ReaperParts): Reaper {
  const { driver, connections, clock, settings } = parts;
  const metering = driver.metering ?? WITHOUT_METERING;
  const idleLoad = new IdleLoad({ ...parts, metering, idleCpuPercent: settings.idleCpuPercent });
  return new Reaper({ ...parts, idleLoad, askAgents: new AskAgents(connections, clock) });
}
