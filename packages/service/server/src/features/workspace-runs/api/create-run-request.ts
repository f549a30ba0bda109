/** Checks of a request for a workspace run that its schema cannot express. */
import { posix } from 'node:path';
import { ARTIFACT_PATTERN, type CreateWorkspaceRunBody, DEFAULT_CWD, type Issue, LIMITS } from '@cloche/contract';
import { invalidRequest } from '../../../platform/base/app-error.ts';
import { commandSpec } from '../../commands/command-request.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { type CheckedCreation, checkCreation } from '../../sandboxes/lifecycle/create-request.ts';
import type { RunSettings } from '../record/workspace-run.ts';

type CheckedRun = Pick<CheckedCreation, 'networkPolicy' | 'resources'> &
  Pick<RunSettings, 'command' | 'cwd' | 'timeoutMs' | 'env' | 'secrets' | 'artifacts'>;

const PATTERN = new RegExp(ARTIFACT_PATTERN, 'u');

/**
 * Checks the sandbox as its own creation does, and the command as its own start does. @throws AppError
 * `invalid_request`
 */
export function checkRun(body: CreateWorkspaceRunBody, settings: SandboxSettings): CheckedRun {
  const { command, timeoutMs, cwd = DEFAULT_CWD, artifacts = [], autoStart: _, ...sandbox } = body;
  const { networkPolicy, resources } = checkCreation(sandbox, settings);
  commandSpec({ command });
  const issues = artifacts.flatMap((pattern, index) => patternIssues(pattern, index));
  const [first, ...others] = issues;
  if (first) throw invalidRequest(first, ...others);
  return {
    command,
    cwd: posix.resolve(DEFAULT_CWD, cwd),
    timeoutMs: timeoutMs ?? LIMITS.workspaceRunTimeoutDefaultMs,
    env: body.env ?? {},
    secrets: body.secrets ?? {},
    resources,
    networkPolicy,
    artifacts,
  };
}

function patternIssues(pattern: string, index: number): Issue[] {
  if (PATTERN.test(pattern)) return [];
  const message =
    'must be a path relative to /workspace without empty names, ".", ".." and the characters []{}\\; * stands for any part ' +
    'of a name, ? for one character, ** for any number of directories';
  return [{ path: `body.artifacts.${index}`, message }];
}
