/** `path` of the contract with its parameters filled in, spelled one way however the client escaped them. */
export function concretePath(path: string, params: unknown): string {
  const values = params as Readonly<Record<string, string>>;
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent((values[name] ?? '').toWellFormed()));
}
