/**
 * Returns `path` of the contract with its parameters filled in. The result does not depend on how the client escaped
 * them.
 */
export function concretePath(path: string, params: unknown): string {
  const values = params as Readonly<Record<string, string>>;
  let concrete = '';
  for (const { text, name } of partsOf(path)) {
    concrete += text;
    if (name !== undefined) concrete += encodeURIComponent((values[name] ?? '').toWellFormed());
  }
  return concrete;
}

interface Part {
  readonly text: string;
  /** Name of the parameter after the text; undefined in the last part. */
  readonly name: string | undefined;
}

/** Parsed paths of the contract. */
const known = new Map<string, readonly Part[]>();

function partsOf(path: string): readonly Part[] {
  let parts = known.get(path);
  if (!parts) {
    const pieces = path.split(/\{(\w+)\}/);
    parts = pieces.flatMap((text, index) => (index % 2 === 0 ? [{ text, name: pieces[index + 1] }] : []));
    known.set(path, parts);
  }
  return parts;
}
