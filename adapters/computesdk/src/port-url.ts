import type { Sandbox } from '@cloche/sdk';

/**
 * Returns the URL of a port, always the same while it is open. It needs no token, because ComputeSDK hands over a URL
 * without header fields: a caller that knows it can reach the port.
 */
export async function portUrl(
  sandbox: Sandbox,
  { port, protocol = 'https' }: { port: number; protocol?: string },
): Promise<string> {
  const open = (await sandbox.previews.list()).find((each) => each.port === port && each.visibility === 'public');
  const { url } = open ?? (await sandbox.previews.open(port, { visibility: 'public' }));
  // The service decides whether connections are encrypted.
  return /^wss?$/.test(protocol) ? url.replace(/^http/, 'ws') : url;
}
