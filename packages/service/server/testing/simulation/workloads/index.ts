/** The workloads, and which of them a seed has. */
import type { OpenWorkload } from '../workload.ts';
import { openApiKeys } from './api-keys.ts';
import { openArtifacts } from './artifacts.ts';
import { openCodeRuns } from './code-runs.ts';
import { openCommands } from './commands.ts';
import { openPauses } from './pauses.ts';
import { openTemplateBuilds } from './template-builds.ts';
import { openWebhooks } from './webhooks.ts';
import { openWorkspaceRuns } from './workspace-runs.ts';

export const WORKLOADS = {
  'code runs': openCodeRuns,
  commands: openCommands,
  pauses: openPauses,
  'workspace runs': openWorkspaceRuns,
  'template builds': openTemplateBuilds,
  webhooks: openWebhooks,
  'API keys': openApiKeys,
  artifacts: openArtifacts,
} as const satisfies Record<string, OpenWorkload>;

export type WorkloadName = keyof typeof WORKLOADS;

export function isWorkload(name: string): name is WorkloadName {
  return Object.hasOwn(WORKLOADS, name);
}

/** Workloads that seeds take in turns; the others run by their names. */
const IN_TURNS = ['code runs', 'commands', 'pauses'] as const satisfies readonly WorkloadName[];

export function workloadOf(seed: number): WorkloadName {
  return IN_TURNS[seed % IN_TURNS.length] ?? IN_TURNS[0];
}
