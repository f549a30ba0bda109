/** Returns why a sandbox ended, for people. A job ends its sandbox as the platform, so that the word alone misleads. */
export function reasonText(reason: string): string {
  return reason === 'platform_cleanup' ? 'platform_cleanup: its job has finished, or it was removed' : reason;
}
