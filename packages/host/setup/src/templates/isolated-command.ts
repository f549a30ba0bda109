const NAMESPACES = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--mount-proc'];

/**
 * Returns a command line that runs `command` in mount and process namespaces of its own, and in those of `more`. Its
 * mounts are invisible elsewhere, and mounts and processes end with it, even when this process is killed.
 */
export function isolatedCommand(
  command: readonly string[],
  more: readonly string[] = [],
): [file: string, args: string[]] {
  return ['setpriv', ['--pdeathsig', 'KILL', 'unshare', ...NAMESPACES, ...more, '--', ...command]];
}
