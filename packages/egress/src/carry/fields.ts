import { fieldPairs, hopByHopNames, type RawFields } from '@cloche/protocol';

/** What is for the other end: without fields of this connection. */
export function endToEndFields(fields: RawFields, ...without: readonly string[]): string[] {
  const dropped = new Set([...hopByHopNames(fields), ...without]);
  return fieldPairs(fields)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}
