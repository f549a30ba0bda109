import { type Static, Type } from 'typebox';
import { ProjectIdSchema } from './ids.ts';
import { timestamp } from './timestamps.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });

const COMMON = {
  cpuMs: count('Processor time in milliseconds.'),
  memoryMbMs: count(
    'Memory limit in MiB multiplied by its duration in milliseconds (MiB·ms), without the time of pauses.',
  ),
  diskMbMs: count('Disk limit in MiB multiplied by its duration in milliseconds (MiB·ms).'),
  pausedMs: count('Milliseconds of pauses. Of what is limited, only the disk counts for them.'),
  runs: count('Code runs that were started.'),
  commands: count('Commands that were started, without terminals.'),
  egressBytes: count('Bytes that left the sandbox through its network link, with the headers of packets.'),
  ingressBytes: count('Bytes that arrived in the sandbox through its network link, with the headers of packets.'),
};

export const UsageRow = Type.Object(
  {
    from: timestamp('Beginning of the hour or day.'),
    to: timestamp('End of the hour or day: the first time that no longer belongs to it.'),
    projectId: ProjectIdSchema,
    sandboxMs: count('Milliseconds for which sandboxes existed, from ready to their end without pauses, together.'),
    ...COMMON,
    workspaceRuns: count('Workspace runs that were started.'),
    artifactBytes: count('Bytes of the artifacts that were created, also of those deleted since.'),
  },
  {
    $id: 'UsageRow',
    description: 'What all sandboxes of a project used in an hour or a day.',
    examples: [
      {
        from: '2026-01-31T00:00:00.000Z',
        to: '2026-02-01T00:00:00.000Z',
        projectId: 'prj_01J0000000000000000000000',
        sandboxMs: 7_200_000,
        cpuMs: 64_120,
        memoryMbMs: 7_372_800_000,
        diskMbMs: 29_491_200_000,
        pausedMs: 7_200_000,
        runs: 310,
        commands: 12,
        egressBytes: 48_211,
        ingressBytes: 1_830_442,
        workspaceRuns: 0,
        artifactBytes: 20_480,
      },
    ],
  },
);
export type UsageRow = Static<typeof UsageRow>;

export const SandboxUsage = Type.Object(
  {
    ...COMMON,
    from: timestamp('When the sandbox became ready; when it was created if it never became ready.'),
    to: timestamp('Until when the values are counted; the end of the sandbox if it has ended.'),
  },
  { $id: 'SandboxUsage', description: 'What a sandbox used from its readiness until `to`.' },
);
export type SandboxUsage = Static<typeof SandboxUsage>;
