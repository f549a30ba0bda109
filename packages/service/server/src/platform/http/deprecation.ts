import { type Operation, operations } from '@cloche/contract';
import { concretePath } from './concrete-path.ts';

/**
 * Returns a function that makes a deprecated operation's headers from the path parameters; undefined for any other
 * operation.
 */
export function deprecationHeaders(operation: Operation): ((params: unknown) => Record<string, string>) | undefined {
  const { deprecation } = operation;
  if (!deprecation) return undefined;
  const successor = Object.values(operations).find(({ id }) => id === deprecation.successorId);
  if (!successor) throw new Error(`${operation.id} names a successor that does not exist`);
  const constant = {
    // RFC 9745 has dates in seconds since the epoch; RFC 8594 has HTTP dates.
    deprecation: `@${Math.floor(deprecation.since.getTime() / 1000)}`,
    sunset: deprecation.sunset.toUTCString(),
  };
  return (params) => {
    const target = `<${concretePath(successor.path, params)}>`;
    return { ...constant, link: `${target}; rel="canonical", ${target}; rel="successor-version"` };
  };
}
