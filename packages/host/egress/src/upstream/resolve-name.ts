import { randomInt } from 'node:crypto';
import { decode, encode, RECURSION_DESIRED, TRUNCATED_RESPONSE } from 'dns-packet';
import { askByConnection, askByDatagram, type Upstream } from '../dns/upstream.ts';
import { EgressError } from './egress-error.ts';

/** Returns the IPv4 addresses of a name, in the order of the answer; at least one. */
export async function resolveName(name: string, upstream: Upstream, signal: AbortSignal): Promise<string[]> {
  const query = encode({
    type: 'query',
    id: randomInt(65_536),
    flags: RECURSION_DESIRED,
    questions: [{ type: 'A', name }],
  });
  const first = decode(await askByDatagram(query, upstream, signal));
  const isCut = ((first.flags ?? 0) & TRUNCATED_RESPONSE) !== 0;
  const { answers = [] } = isCut ? decode(await askByConnection(query, upstream, signal)) : first;
  const addresses = answers.flatMap((answer) => (answer.type === 'A' ? [answer.data] : []));
  if (addresses.length === 0) throw new EgressError('name_not_found', `${name} has no IPv4 address`);
  return addresses;
}
