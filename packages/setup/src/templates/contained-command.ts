const NAMESPACES = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc'];

/**
 * A command line that runs `command` in mount and process namespaces of its own, and in those of `more`. Its mounts are
 * invisible elsewhere and go with it, and its processes end with it, even when we are killed.
 */
export function contained(command: readonly string[], more: readonly string[] = []): [file: string, args: string[]] {
  return ['setpriv', ['--pdeathsig', 'KILL', 'unshare', ...NAMESPACES, ...more, '--', ...command]];
}
