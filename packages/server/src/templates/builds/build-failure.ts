import { LIMITS, type TemplateBuildErrorCode } from '@cloche/contract';
import type { AgentCommand } from '@cloche/protocol';
import { AppError } from '../../base/app-error.ts';
import { CaptureError } from '../../driver/runtime-driver.ts';
import type { BuildFailure } from './template-build.ts';

/** A build that fails by itself: it would fail again. */
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

/** Returns why a step failed whose command has ended, or undefined if it succeeded. */
export function failureOf(command: AgentCommand, description: string, step: number): BuildFailedError | undefined {
  const { status, exitCode, signal, failureReason } = command;
  if (status === 'exited' && exitCode === 0) return undefined;
  const how =
    failureReason ?? (signal === undefined ? `It ended with exit code ${exitCode}.` : `It was ended by ${signal}.`);
  return new BuildFailedError('step_failed', `Step ${step} (${description}) failed. ${how}`, step);
}

/**
 * Returns the failure that an error of the sandbox or of the host means for the build; undefined if the service failed
 * and may try again.
 */
export function explain(error: unknown, step?: number): BuildFailedError | undefined {
  if (error instanceof BuildFailedError) return error;
  if (error instanceof CaptureError) {
    return error.kind === 'refused' ? new BuildFailedError('too_large', error.message, step) : lost(step);
  }
  if (!(error instanceof AppError)) return undefined;
  if (error.code === 'sandbox_destroyed' || error.code === 'sandbox_failed') return lost(step);
  // The quota of launches makes a build wait instead.
  if (error.code === 'quota_exceeded') return new BuildFailedError('too_large', error.message);
  if (error.code === 'invalid_request') return new BuildFailedError('not_launched', error.message);
  return undefined;
}

function lost(step: number | undefined): BuildFailedError {
  const message =
    'The sandbox of the build ended before the step: its processes were killed, or a client destroyed it.';
  return new BuildFailedError('sandbox_lost', message, step);
}
