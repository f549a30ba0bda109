import type { Issue } from '@cloche/contract';
import type { TObject } from 'typebox';

export interface ReadQuery {
  readonly values: Record<string, unknown>;
  readonly issues: readonly Issue[];
}

/** Returns a parser of query strings that converts parameters to the integers and booleans that `schema` declares. */
export function queryReader(schema: TObject | undefined): (text: string) => ReadQuery {
  const types = new Map(
    Object.entries(schema?.properties ?? {}).map(([name, { type }]: [string, { type?: unknown }]) => [name, type]),
  );
  return (text) => {
    const issues: Issue[] = [];
    const values: Record<string, unknown> = Object.create(null);
    if (text === '') return { values, issues };
    if (!isDecodable(text)) issues.push({ path: 'query', message: 'has a percent escape that is not valid UTF-8' });
    for (const [name, value] of new URLSearchParams(text)) {
      if (name in values) issues.push({ path: `query.${name}`, message: 'is given more than once; give it once' });
      if (value.includes('\0')) issues.push({ path: `query.${name}`, message: 'must not contain the character NUL' });
      values[name] = typed(value, types.get(name));
    }
    return { values, issues };
  };
}

/** A value above every integer parameter's limit, so that the schema reports its own limit. */
const TOO_LARGE = Number.MAX_SAFE_INTEGER + 1;

function typed(value: string, type: unknown): unknown {
  if (type === 'integer' && /^-?\d+$/.test(value)) {
    return Math.min(Math.max(Number(value), -TOO_LARGE), TOO_LARGE);
  }
  if (type === 'boolean' && /^(true|false)$/.test(value)) return value === 'true';
  return value;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
