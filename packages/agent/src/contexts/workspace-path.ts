import { realpathSync, statSync } from 'node:fs';
import { sep } from 'node:path';
import { AgentError } from '../base/agent-error.ts';

/**
 * The folder that `cwd` leads to, links followed. Throws `invalid_cwd` unless it is one within the workspace.
 * A link that changes after this check leads nowhere that user code could not go by itself.
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
    // Links are followed before `..` is: the way the system itself reads a path.
    return realpathSync.native(path);
  } catch {
    throw new AgentError('invalid_cwd', 'cwd does not exist.');
  }
}
