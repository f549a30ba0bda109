/** Header fields that egress and previews pass on: names and values alternate, as in Node's `rawHeaders`. */
export type RawFields = readonly string[];

/** Fields that apply to one connection and are not forwarded (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

export function fieldPairs(fields: RawFields): [name: string, value: string][] {
  return Array.from({ length: Math.floor(fields.length / 2) }, (_, index) => [
    fields[index * 2] ?? '',
    fields[index * 2 + 1] ?? '',
  ]);
}

/** Returns the lower-case names of fields that are not forwarded, including those that `Connection` names. */
export function hopByHopNames(fields: RawFields): Set<string> {
  const names = new Set(HOP_BY_HOP);
  for (const [name, value] of fieldPairs(fields)) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const option of value.split(',')) names.add(option.trim().toLowerCase());
  }
  // A sender may not remove this field, because it frames the body.
  names.delete('content-length');
  return names;
}
