import type { Measurement } from '../measurement.ts';
import { artifacts } from './artifacts.ts';
import { blocked } from './blocked.ts';
import { commands } from './commands.ts';
import { contexts } from './contexts.ts';
import { burst, create } from './create.ts';
import { cycles } from './cycles.ts';
import { deletion } from './deletion.ts';
import { e2b } from './e2b.ts';
import { files } from './files.ts';
import { firstCommand } from './first-command.ts';
import { firstResult } from './first-result.ts';
import { gateway } from './gateway.ts';
import { growth } from './growth.ts';
import { gvisor } from './gvisor.ts';
import { hotRuns, throughput } from './hot-runs.ts';
import { jobs } from './jobs.ts';
import { jupyter } from './jupyter.ts';
import { networks } from './networks.ts';
import { output } from './output.ts';
import { previews } from './previews.ts';
import { servers } from './servers.ts';
import { templates } from './templates.ts';

/** Measurements in the order in which they are run and shown. */
export const MEASUREMENTS: readonly Measurement[] = [
  create,
  firstResult,
  firstCommand,
  contexts,
  hotRuns,
  throughput,
  servers,
  output,
  burst,
  deletion,
  commands,
  e2b,
  jupyter,
  files,
  artifacts,
  jobs,
  templates,
  previews,
  networks,
  gateway,
  blocked,
  gvisor,
  growth,
  cycles,
];
