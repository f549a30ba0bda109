import { chownSync, mkdirSync, statSync } from 'node:fs';
import { AgentError } from './agent-error.ts';
import { codeOf } from './error-code.ts';

export interface WorkspaceOptions {
  readonly workspace: string;
  /** Owner of a workspace that is created. */
  readonly uid: number;
  readonly gid: number;
}

/**
 * Creates the workspace again if root of the sandbox has removed it. Throws `unusable` if something else has its path.
 * Returns a text that differs when another folder has its path.
 */
export function ensureWorkspace({ workspace, uid, gid }: WorkspaceOptions): string {
  try {
    const found = statSync(workspace, { throwIfNoEntry: false });
    if (found === undefined) {
      mkdirSync(workspace);
      chownSync(workspace, uid, gid);
    } else if (!found.isDirectory()) throw notUsable(workspace, 'is not a directory');
    const { dev, ino } = found ?? statSync(workspace);
    return `${dev}/${ino}`;
  } catch (error) {
    if (error instanceof AgentError) throw error;
    // `mkdir` does not follow a link that leads nowhere.
    const isLink = codeOf(error) === 'EEXIST';
    throw notUsable(workspace, isLink ? 'is a link that leads nowhere' : `cannot be used (${codeOf(error)})`);
  }
}

/** Returns whether `path` is the workspace or leads below it. Follows no links. */
export function isWithin(path: string, workspace: string): boolean {
  return path === workspace || path.startsWith(`${workspace}/`);
}

/** Returns the error of a workspace that something other than the request has made unusable. */
export function notUsable(workspace: string, why: string): AgentError {
  return new AgentError('unusable', `${workspace} ${why}; make it a directory of the user again, as root`);
}

/** Throws `unusable` unless `cwd` is still a directory, as the folder of an existing context may be no more. */
export function requireContextFolder(cwd: string): void {
  const isFolder = statSync(cwd, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder) throw new AgentError('unusable', `${cwd}, the cwd of the context, is not a directory any more`);
}
