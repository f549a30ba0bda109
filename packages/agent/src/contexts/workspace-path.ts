import { realpathSync, statSync } from 'node:fs';
import { sep } from 'node:path';
import { AgentError } from '../base/agent-error.ts';

/**
 * Returns the real path of `cwd`. Throws `invalid_cwd` unless it is a folder within the workspace. This is no security
 * boundary: a link changed after the check leads only where user code can go by itself.
 */
export function resolveCwd(cwd: string, workspace: string): string {
  if (!cwd.startsWith('/') || cwd.includes('\0')) throw new AgentError('invalid_cwd', 'cwd is not an absolute path.');
  const root = realpathSync.native(workspace);
  const resolved = realPathOf(cwd);
  if (resolved !== root && !resolved.startsWith(root + sep)) {
    throw new AgentError('invalid_cwd', `cwd leads out of ${workspace}.`);
  }
  if (!statSync(resolved).isDirectory()) throw new AgentError('invalid_cwd', 'cwd is not a directory.');
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
