/** Header fields that are passed on, by egress and by previews alike: names and values in turn, as Node gives and takes them. */
export type RawFields = readonly string[];

/** About one connection, and not about what goes through it (RFC 9110, 7.6.1). */
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

/** The lower-case names of fields that end at this connection, those that `Connection` names among them. */
export function hopByHopNames(fields: RawFields): Set<string> {
  const names = new Set(HOP_BY_HOP);
  for (const [name, value] of fieldPairs(fields)) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const option of value.split(',')) names.add(option.trim().toLowerCase());
  }
  // A sender may not have this one taken out: it frames the body.
  names.delete('content-length');
  return names;
}
