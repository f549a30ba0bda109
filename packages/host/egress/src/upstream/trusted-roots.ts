import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';

/** Returns a context that trusts the host's roots and those in `extraFile`. Throws if there are none at all. */
export function trustedRoots(extraFile: string | undefined): SecureContext {
  const ofHost = getCACertificates('system');
  const extra = extraFile === undefined ? [] : [readFileSync(extraFile, 'utf8')];
  const ca = [...ofHost, ...extra];
  if (ca.length === 0) throw new Error('the host has no certificate authorities: install ca-certificates');
  return createSecureContext({ ca });
}
