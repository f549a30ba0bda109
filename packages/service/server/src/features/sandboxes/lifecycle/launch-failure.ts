import { AgentError, type Instances, LaunchError } from '@cloche/runtime';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { TransitionChange } from '../../sandbox-records/sandbox-repository.ts';

/** Fields of the record of a sandbox that explain its failed launch. */
export type LaunchFailure = Pick<TransitionChange, 'failureReason' | 'failureKind'>;

/** Explains the error of a launch. The reason is for the user and reveals nothing about the host. */
export function explainLaunchFailure(
  error: unknown,
  { networkPolicy, resources }: SandboxRecord,
  { isolation }: Pick<Instances, 'isolation'>,
): LaunchFailure {
  if (error instanceof AgentError) return { failureReason: 'The sandbox stopped while it was starting.' };
  if (!(error instanceof LaunchError)) return { failureReason: 'The sandbox could not be launched.' };
  switch (error.kind) {
    case 'unsupported': {
      const { mode } = networkPolicy;
      const enforced = isolation?.networkModes ?? [mode];
      if (enforced.includes(mode)) {
        const failureReason = `The network mode "${mode}" could not be enforced when the sandbox was launched. Try again.`;
        return { failureReason };
      }
      const modes = enforced.map((each) => `"${each}"`).join(' or ');
      const failureReason = `This host cannot enforce the network mode "${mode}". Use a mode that it can enforce: ${modes}.`;
      return { failureReason };
    }
    case 'no_capacity': {
      const wanted = `${resources.cpu} cores, ${resources.memoryMb} MiB of memory and ${resources.diskMb} MiB of disk`;
      const failureReason = `The host currently has no capacity for ${wanted}. Try again later or request fewer resources.`;
      return { failureReason, failureKind: 'no_capacity' };
    }
    case 'template_not_found': {
      const failureReason = 'The template version is no longer on this host. Use the latest version.';
      return { failureReason, failureKind: 'no_version' };
    }
    case 'unreachable':
    case 'incompatible':
    case 'failed':
      return { failureReason: 'The sandbox could not be launched.' };
  }
}

/** Explains a launch that its time limit ended. */
export function notReadyWithin(ms: number): LaunchFailure {
  return { failureReason: `The sandbox was not ready within ${ms} ms.`, failureKind: 'too_slow' };
}
