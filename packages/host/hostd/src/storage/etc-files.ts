import { SANDBOX_HOST_NAME } from '../base/sandbox-host-name.ts';
import type { EtcFiles } from './root-file-system.ts';

const HOSTS = `127.0.0.1 localhost\n127.0.1.1 ${SANDBOX_HOST_NAME}\n`;

/**
 * Returns the sandbox's own files in `/etc`. Without a resolver the file names 127.0.0.1, where the kernel refuses at
 * once. An empty file would mean 127.0.0.1 as well, but with timeouts of seconds.
 */
export function etcFiles(resolver: string | undefined): EtcFiles {
  return {
    '/etc/hostname': `${SANDBOX_HOST_NAME}\n`,
    '/etc/hosts': HOSTS,
    '/etc/resolv.conf':
      resolver === undefined
        ? 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n'
        : `nameserver ${resolver}\noptions timeout:5 attempts:2\n`,
  };
}
