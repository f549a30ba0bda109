import type { WorkloadName } from './workloads/index.ts';

/** Seeds that once violated an invariant because of a fault of the product or of the invariant. They are always run. */
export const KEPT_SEEDS: readonly { readonly seed: number; readonly workload: WorkloadName; readonly fault: string }[] =
  [
    {
      seed: 79,
      workload: 'code runs',
      fault: 'a launch stopped its ready sandbox when the answer to its last commit was lost',
    },
    { seed: 534, workload: 'code runs', fault: 'a launch did the same, as the only thing that happened' },
    {
      seed: 1484,
      workload: 'commands',
      fault: 'a server that had stood still started a command that another one had counted as lost',
    },
    { seed: 29, workload: 'artifacts', fault: 'a deletion failed because the store did not answer' },
    {
      seed: 2010,
      workload: 'artifacts',
      fault: 'the removal of a content arrived when another artifact had the content',
    },
    {
      seed: 150_980,
      workload: 'code runs',
      fault: 'a server that had started while the database was slow ended a sandbox before its time',
    },
    {
      seed: 310_504,
      workload: 'code runs',
      fault: 'the code of a canceled run may arrive at the agent after the answer was stored',
    },
    {
      seed: 317_410,
      workload: 'code runs',
      fault: 'nobody watched what a sandbox executed that was launched anew beside its lost instance',
    },
    {
      seed: 503_142,
      workload: 'code runs',
      fault: 'a slow comparison that drift alone contradicted moved the clock of a server by half its duration',
    },
    {
      seed: 900_000,
      workload: 'workspace runs',
      fault: 'a server that had not asked the host for templates yet failed a run that another one had accepted',
    },
    {
      seed: 900_352,
      workload: 'workspace runs',
      fault: 'a run failed because its server had stood still while its sandbox was launched',
    },
    {
      seed: 2_002_354,
      workload: 'webhooks',
      fault: 'after an error of the database, a webhook got nothing until the claim on it had expired',
    },
    {
      seed: 2_006_020,
      workload: 'API keys',
      fault: 'a server that had stood still replaced the key that another one had created for the same request',
    },
    {
      seed: 65,
      workload: 'pauses',
      fault: 'a pause was undone in the instance alone when the answer to its last commit was lost',
    },
    {
      seed: 4_000_383,
      workload: 'template builds',
      fault: 'a server that had stood still after its claim destroyed the sandbox of the server that had the build now',
    },
  ];
