/**
 * A command line that runs `command` in mount and process namespaces of its own: what it mounts is seen by nobody and
 * goes with it, and nothing of it outlives us, even when we are killed.
 */
export function contained(command: readonly string[]): [file: string, args: string[]] {
  const namespaces = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc'];
  return ['setpriv', ['--pdeathsig', 'KILL', 'unshare', ...namespaces, '--', ...command]];
}
