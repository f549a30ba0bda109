/** Names and values in turn, as Node gives and takes them when nothing may be lost. */
export type FlatFields = readonly string[];

/** About one connection, and not about what goes through it. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** What is for the other end: without fields of this connection, those that `Connection` names among them. */
export function endToEndFields(fields: FlatFields, ...without: readonly string[]): string[] {
  const names = pairs(fields);
  const dropped = new Set(without);
  for (const [name, value] of names) {
    if (name.toLowerCase() !== 'connection') continue;
    for (const option of value.split(',')) dropped.add(option.trim().toLowerCase());
  }
  // A sender may not have this one taken out: it frames the body.
  dropped.delete('content-length');
  return names.filter(([name]) => !HOP_BY_HOP.has(name.toLowerCase()) && !dropped.has(name.toLowerCase())).flat();
}

export function pairs(fields: FlatFields): [name: string, value: string][] {
  return Array.from({ length: fields.length / 2 }, (_, index) => [
    fields[index * 2] ?? '',
    fields[index * 2 + 1] ?? '',
  ]);
}
