import { GatewayError } from '@cloche/kit';

/**
 * Returns what `/v1` is sent for a pause or a wake whose flag `field` says whether the memory is kept. `/v1` always keeps
 * it: once it can drop it, `filesOnly` returns `{ memory: 'drop' }` in place of the refusal.
 *
 * @throws GatewayError 400
 */
export function filesOnly(keepsMemory: boolean | null | undefined, field: string): object {
  if (keepsMemory !== false) return {};
  throw new GatewayError(400, `Cloche does not pause without the memory of a sandbox yet; leave ${field}: false out.`);
}
