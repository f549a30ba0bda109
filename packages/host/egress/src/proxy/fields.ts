import { fieldPairs, hopByHopNames, type RawFields } from '@cloche/node-support';

/** Returns the end-to-end fields: without hop-by-hop fields and those in `without`. */
export function endToEndFields(fields: RawFields, ...without: readonly string[]): string[] {
  const dropped = new Set([...hopByHopNames(fields), ...without]);
  return fieldPairs(fields)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}
