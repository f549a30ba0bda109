import { KeyCreated } from '@cloche/protocol';
import { Value } from 'typebox/value';
import type { Installation } from './installation/start-installation.ts';

/**
 * Returns the key of a new installation, which is shown once; undefined when the installation already has keys. Safe to
 * repeat.
 */
export async function requestFirstKey(installation: Pick<Installation, 'operator'>): Promise<string | undefined> {
  const { status, body } = await installation.operator('POST', '/first-key');
  if (status === 409) return undefined;
  if (status !== 200 && status !== 201) throw new Error(`The server answered ${status} when asked for its first key.`);
  return Value.Parse(KeyCreated, body).key.secret;
}
