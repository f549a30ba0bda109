import { formatImageName } from '@cloche/contract';
import type { PlannedStep } from './plan.ts';

const LENGTH = 200;

/** Returns what a step does, for people, in one short line. */
export function describeStep(step: PlannedStep): string {
  const text = fullDescription(step).replaceAll(/\s+/g, ' ').trim();
  return text.length > LENGTH ? `${text.slice(0, LENGTH).toWellFormed()}…` : text;
}

function fullDescription(step: PlannedStep): string {
  switch (step.kind) {
    case 'image':
      return 'pull' in step ? `pull the image ${formatImageName(step.pull)}` : `unpack the image ${step.artifactId}`;
    case 'files':
      return `write ${step.files.map(({ path }) => path).join(' ')}`;
    case 'run':
      return step.run;
    default:
      return `${step.kind} install ${step.packages.join(' ')}`;
  }
}
