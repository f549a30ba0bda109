import { type Static, Type } from 'typebox';
import { SandboxIdSchema } from './ids.ts';
import { timestamp } from './timestamps.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const SandboxMeasurement = Type.Object(
  {
    at: timestamp('When it was measured.'),
    cpu: Type.Number({
      minimum: 0,
      description:
        'Cores in use, on average since the measurement before. Includes the process by which the service controls the ' +
        'sandbox, which has a share of its own, so the value can exceed the limit slightly.',
    }),
    memoryBytes: count(
      'Memory of the processes and of files in memory. Cached files on the disk do not count: the kernel drops them when ' +
        'memory is short.',
    ),
    diskBytes: Type.Optional(count('Bytes that files occupy on the disk of the sandbox.')),
    inodes: Type.Optional(count('Files, directories and links on the disk of the sandbox.')),
    processes: Type.Optional(count('Processes and threads. Absent where the runtime is gVisor, which does not tell.')),
    networkBytes: Type.Object(
      {
        egress: count('Bytes that the sandbox has sent, with all headers, including those that were refused.'),
        ingress: count('Bytes that the sandbox has received, with all headers.'),
      },
      {
        description:
          'Bytes on the network link since the sandbox began. The difference of two measurements is the traffic.',
      },
    ),
  },
  { $id: 'SandboxMeasurement', description: 'What a sandbox uses at a moment.' },
);
export type SandboxMeasurement = Static<typeof SandboxMeasurement>;

export const SandboxMetricLimits = Type.Object(
  {
    cpu: Type.Number({ description: 'CPU cores.' }),
    memoryBytes: count('Memory in bytes.'),
    diskBytes: count(
      'Bytes that files can occupy. Slightly less than `resources.diskMb`, because the file system needs some itself.',
    ),
    inodes: Type.Optional(count('Files, directories and links that fit on the disk.')),
    processes: count('Processes and threads.'),
  },
  { $id: 'SandboxMetricLimits', description: 'Limit of each measured value that has one.' },
);
export type SandboxMetricLimits = Static<typeof SandboxMetricLimits>;

const current = {
  sandboxId: SandboxIdSchema,
  limits: SandboxMetricLimits,
  now: SandboxMeasurement,
  paused: Type.Optional(
    Type.Boolean({
      description: 'True while the sandbox is paused: `now` is what it holds, and its processor use is 0.',
    }),
  ),
};
export const CurrentSandboxMetrics = Type.Object(current, {
  $id: 'CurrentSandboxMetrics',
  description: 'What a sandbox uses now, with its limits.',
});
export type CurrentSandboxMetrics = Static<typeof CurrentSandboxMetrics>;

export const SandboxMetrics = Type.Object(
  {
    ...current,
    intervalMs: Type.Integer({ description: 'Time between two samples in milliseconds.' }),
    samples: Type.Array(SandboxMeasurement, {
      description:
        'Measurements of the last hour, oldest first. Sampling starts at most 11 seconds after the sandbox and restarts ' +
        'with the host daemon.',
    }),
  },
  { $id: 'SandboxMetrics', description: 'What a sandbox uses now and used in the last hour, with its limits.' },
);
export type SandboxMetrics = Static<typeof SandboxMetrics>;
