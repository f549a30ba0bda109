import { createRequire, stripTypeScriptTypes } from 'node:module';

// `acorn` is a dependency of this package, and of no other.
const { parse }: typeof import('acorn') = createRequire(
  new URL('../packages/guest/kernel-js/package.json', import.meta.url),
)('acorn');

export interface FunctionLength {
  /** Name of the function, or of the variable or field that it is assigned to; empty without one. */
  readonly name: string;
  readonly lines: number;
}

interface SyntaxNode {
  readonly type: string;
  readonly loc: { readonly start: { readonly line: number }; readonly end: { readonly line: number } };
  readonly [field: string]: unknown;
}

/** Returns the functions, methods and arrow functions of a TypeScript file, with the lines that each takes. */
export function functionLengths(source: string): FunctionLength[] {
  // Types are replaced by spaces, so lines stay what they were.
  const script = stripTypeScriptTypes(source, { mode: 'strip' });
  const program: unknown = parse(script, { ecmaVersion: 'latest', sourceType: 'module', locations: true });
  return lengthsIn(program, '');
}

function lengthsIn(value: unknown, name: string): FunctionLength[] {
  if (Array.isArray(value)) return value.flatMap((each) => lengthsIn(each, name));
  if (!isNode(value)) return [];
  const own = nameOf(value) ?? name;
  const below = Object.values(value).flatMap((each) => lengthsIn(each, own));
  if (!value.type.includes('Function')) return below;
  return [{ name: own, lines: value.loc.end.line - value.loc.start.line + 1 }, ...below];
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && 'loc' in value;
}

/** Returns the name that a node gives to the function in it. */
function nameOf({ id, key }: SyntaxNode): string | undefined {
  const named = (id ?? key) as { name?: string } | null | undefined;
  return named?.name;
}
