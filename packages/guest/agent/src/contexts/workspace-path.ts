import { realpathSync, statSync } from 'node:fs';
import { sep } from 'node:path';
import { AgentError } from '../base/agent-error.ts';
import { ensureWorkspace, notUsable, type WorkspaceOptions } from '../base/workspace-folder.ts';
import { UserRights } from '../files/rights.ts';

/**
 * Returns the real path of `cwd`. Throws `invalid_cwd` unless it is a folder within the workspace that the user may
 * enter, and `unusable` where the workspace itself is none. This is no security boundary: a link changed after the check
 * leads only where user code can go by itself.
 */
export function resolveCwd(cwd: string, options: WorkspaceOptions): string {
  const { workspace, uid, gid } = options;
  if (!cwd.startsWith('/') || cwd.includes('\0')) throw new AgentError('invalid_cwd', 'cwd is not an absolute path.');
  ensureWorkspace(options);
  const root = realpathSync.native(workspace);
  const resolved = realPathOf(cwd);
  if (resolved !== root && !resolved.startsWith(root + sep)) {
    throw new AgentError('invalid_cwd', `cwd leads out of ${workspace}.`);
  }
  if (!statSync(resolved).isDirectory()) throw new AgentError('invalid_cwd', 'cwd is not a directory.');
  if (!new UserRights({ uid, gid }).run(() => mayEnter(resolved))) {
    if (resolved === root) throw notUsable(workspace, 'may not be entered by the user');
    throw new AgentError('invalid_cwd', 'cwd may not be entered by the user.');
  }
  return resolved;
}

function realPathOf(path: string): string {
  try {
    // Follows links before it resolves `..`, as the system does.
    return realpathSync.native(path);
  } catch {
    throw new AgentError('invalid_cwd', 'cwd does not exist.');
  }
}

function mayEnter(folder: string): boolean {
  try {
    // Looking up a name in a folder takes the right to enter it.
    statSync(`${folder}/.`);
    return true;
  } catch {
    return false;
  }
}
