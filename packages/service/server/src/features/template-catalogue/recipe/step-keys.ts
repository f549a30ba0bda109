import { createHash } from 'node:crypto';
import { formatImageName } from '@cloche/contract';
import { canonicalJson } from '../../../platform/base/canonical-json.ts';
import type { Plan, PlannedPull, PlannedStep } from './plan.ts';

/** Must change whenever the commands of steps change, so that cached results of the earlier commands are not used. */
const FORM = 1;

/**
 * Returns a key for each step: a digest of everything that its result depends on. These are the version that the recipe
 * starts from, the environment, the step with the contents of its files, and all earlier steps.
 */
export function stepKeys(fromVersionId: string, { steps, settings }: Plan): string[] {
  const keys: string[] = [];
  // The files of an image are the same whichever version's sandbox unpacks it.
  let key = digest([FORM, steps[0]?.kind === 'image' ? 'image' : fromVersionId, settings.env]);
  for (const step of steps) {
    key = digest([key, withDigests(step)]);
    keys.push(key);
  }
  return keys;
}

/** Returns the key of the version: the digest of its last step and of its settings. */
export function versionKey(templateId: string, fromVersionId: string, plan: Plan): string {
  return digest([templateId, stepKeys(fromVersionId, plan).at(-1) ?? fromVersionId, plan.settings]);
}

/** Replaces contents by their digests: equal bytes give equal keys, wherever they come from. */
function withDigests(step: PlannedStep): unknown {
  if (step.kind === 'image') {
    // The same digest is the same image, in whichever registry.
    return { kind: step.kind, ...('pull' in step ? { digest: digestOf(step.pull) } : { sha256: step.sha256 }) };
  }
  if (step.kind !== 'files') return step;
  const files = step.files.map(({ content, ...file }) => ({
    ...file,
    sha256: 'sha256' in content ? content.sha256 : sha256(Buffer.from(content.base64, 'base64')),
  }));
  return { kind: step.kind, files };
}

function digestOf(image: PlannedPull): string {
  if (image.digest === undefined) throw new Error(`the digest of ${formatImageName(image)} is not known yet`);
  return image.digest;
}

function digest(value: unknown): string {
  return sha256(canonicalJson(value));
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
