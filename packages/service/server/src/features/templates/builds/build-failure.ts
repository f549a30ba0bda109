import { LIMITS, type TemplateBuildErrorCode, type TemplateVersionId } from '@cloche/contract';
import type { AgentCommand } from '@cloche/protocol';
import { CaptureError } from '@cloche/runtime';
import { AppError } from '../../../platform/base/app-error.ts';
import type { BuildFailure } from './template-build.ts';

/** A failure caused by the build itself. Another attempt would fail too. */
export class BuildFailedError extends Error {
  override readonly name = 'BuildFailedError';
  readonly code: TemplateBuildErrorCode;
  readonly step: number | undefined;

  /** @param step number of the step, from 1 */
  constructor(code: TemplateBuildErrorCode, message: string, step?: number) {
    super(message);
    this.code = code;
    this.step = step;
  }

  get failure(): BuildFailure {
    return { code: this.code, message: this.message, ...(this.step === undefined ? {} : { step: this.step }) };
  }
}

export function timedOut(): BuildFailure {
  const minutes = LIMITS.templateBuildMs / 60_000;
  return { code: 'timed_out', message: `The build took more than ${minutes} minutes.` };
}

export function baseLost(versionId: TemplateVersionId): BuildFailedError {
  const message = `The version ${versionId}, which the recipe starts from, has been removed. Build its template again.`;
  return new BuildFailedError('not_launched', message);
}

/** Returns the failure of a step whose command has ended, or undefined if the command succeeded. */
export function failureOf(command: AgentCommand, description: string, step: number): BuildFailedError | undefined {
  const { status, exitCode, signal, failureReason } = command;
  if (status === 'exited' && exitCode === 0) return undefined;
  const how =
    failureReason ?? (signal === undefined ? `It ended with exit code ${exitCode}.` : `It was ended by ${signal}.`);
  return new BuildFailedError('step_failed', `Step ${step} (${description}) failed. ${how}`, step);
}

/**
 * Converts an error of the sandbox or of the host to a failure of the build. Returns undefined for a fault of the
 * service, after which the build can be tried again.
 */
export function explain(error: unknown, step?: number): BuildFailedError | undefined {
  if (error instanceof BuildFailedError) return error;
  if (error instanceof CaptureError) {
    return error.kind === 'refused' ? new BuildFailedError('too_large', error.message, step) : lost(step);
  }
  if (!(error instanceof AppError)) return undefined;
  if (error.code === 'sandbox_destroyed' || error.code === 'sandbox_failed') return lost(step);
  // A quota on launches never fails a build; the build waits instead.
  if (error.code === 'quota_exceeded') return new BuildFailedError('too_large', error.message);
  if (error.code === 'invalid_request') return new BuildFailedError('not_launched', error.message);
  return undefined;
}

function lost(step: number | undefined): BuildFailedError {
  const message =
    'The sandbox of the build ended before the step: its processes were killed, or a client destroyed it.';
  return new BuildFailedError('sandbox_lost', message, step);
}

export function diskFull(step: number): BuildFailedError {
  const message = `Step ${step} filled the disk of the build. Set resources.diskMb of the recipe to a larger size.`;
  return new BuildFailedError('disk_full', message, step);
}
