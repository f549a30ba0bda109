import { parsePlainJson } from '@cloche/node-support';
import { GatewayError } from './gateway-error.ts';

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses the JSON of a body or a message.
 *
 * @throws GatewayError 400 for bytes that are not JSON in UTF-8, or have more values or levels than allowed
 */
export function readJson(bytes: Uint8Array, mostValues: number): unknown {
  try {
    return parsePlainJson(UTF8.decode(bytes), mostValues);
  } catch (error) {
    throw new GatewayError(400, `The body is not JSON that can be read: ${(error as Error).message}`);
  }
}
