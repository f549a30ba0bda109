/** Turns a validator's errors into messages that name the wrong field and its valid values. */
import { type Issue, LABEL_PATTERN } from '@cloche/contract';
import type { TSchema } from 'typebox';
import type { TLocalizedValidationError } from 'typebox/error';

const VALUE_SHOWN = 60;

/** Messages for the contract's patterns. */
export const PATTERNS: Readonly<Record<string, string>> = {
  '^cctx_': 'must be the id of a context, which starts with "cctx_"',
  '^sbx_[0-9a-z]{4,40}$': 'must be "sbx_" and four or more of the characters that follow in an id',
  '^wrun_[0-9a-z]{4,40}$': 'must be "wrun_" and four or more of the characters that follow in an id',
  '^[^\\u0000]*$': 'must not contain the character NUL (U+0000)',
  '^[^\\u0000-\\u001f\\u007f]*$': 'must not contain a control character',
  '^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$': 'must not contain a control character other than tab',
  '^[^/\\\\\\u0000-\\u001f\\u007f]+$': 'must not contain a slash, a backslash or a control character',
  '^[\\w.+-]+/[\\w.+-]+(; ?[\\w-]+=[\\w.+-]+)*$': 'must be a media type such as text/csv; charset=utf-8',
  '^[^:]+$': 'must not contain a colon',
  '^[^:\\u0000]+$': 'must not contain a colon or the character NUL (U+0000)',
  '^\\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s-]*-----END CERTIFICATE-----\\s*$':
    'must be certificates in PEM format',
  '^[0-9a-f]{64}$': 'must be a SHA-256 in lower-case hexadecimal: 64 digits',
  '^[0-7]{3,4}$': 'must be 3 or 4 octal digits, such as 0644',
  '^0?[0-7]{3}$': 'must be 3 octal digits, or 4 of which the first is 0, such as 0644',
  '^/': 'must be an absolute path, which starts with a slash',
  '^[a-z0-9][a-z0-9-]*$': 'must consist of lower-case letters, digits and hyphens and not start with a hyphen',
  '^(?!sbx_)[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$':
    'must consist of lower-case letters, digits, ".", "_" and "-", begin and end with a letter or a digit, and not begin with "sbx_"',
  '^[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$':
    'must be a Debian package, such as graphviz or graphviz=2.42.2-7',
  '^[A-Za-z0-9][^\\u0000-\\u001f\\u007f]*$': 'must be a requirement of pip, such as jinja2==3.1.4',
  '^[@A-Za-z0-9][^\\u0000-\\u0020\\u007f]*$': 'must be a package of npm, such as typescript@5.9.3',
  '^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$': 'must be the name of a Python module, such as os.path',
  '^[A-Za-z_][A-Za-z0-9_]*$': 'must consist of letters, digits and underscores and not start with a digit',
};

/** Shown names of the query parameters that match a pattern. */
const NAMES: Readonly<Record<string, string>> = { [LABEL_PATTERN]: 'metadata.<key>' };

/**
 * Describes validation errors. `part` is `body`, `query` or `params`; `schema` and `value` are what was checked. Never
 * returns an empty list, because an empty list means that the value is valid.
 */
export function describeIssues(
  part: string,
  schema: TSchema,
  value: unknown,
  errors: readonly TLocalizedValidationError[],
): Issue[] {
  const issues = errors.flatMap((error) => describe(part, schema, value, error));
  return issues.length > 0 ? issues : [{ path: part, message: 'is invalid; see /openapi.json' }];
}

function describe(part: string, schema: TSchema, root: unknown, error: TLocalizedValidationError): Issue[] {
  const names = segments(error.instancePath);
  const path = [part, ...names].join('.');
  const value = follow(root, names);
  if (error.schemaPath.includes('/propertyNames')) {
    return [{ path, message: `has an invalid name, which ${constraint(error, names.at(-1))}` }];
  }
  switch (error.keyword) {
    // The validator also reports an error for each name. It stops after a few errors, so those may be missing.
    case 'additionalProperties':
    case 'propertyNames':
      return [];
    case 'boolean':
      return [{ path, message: unknownField(part, knownNames(schema, error.schemaPath)) }];
    case 'required':
      return error.params.requiredProperties.map((name) => ({ path: `${path}.${name}`, message: 'is required' }));
    default:
      return [{ path, message: constraint(error, value) }];
  }
}

function unknownField(part: string, known: readonly string[]): string {
  const what = part === 'query' ? 'is not a parameter of this operation' : 'is not a known field';
  return known.length > 0 ? `${what}; use one of: ${known.join(', ')}` : `${what}; remove it`;
}

function constraint(error: TLocalizedValidationError, value: unknown): string {
  switch (error.keyword) {
    case 'type':
      return `must be ${[error.params.type].flat().map(articled).join(' or ')}, not ${typeName(value)}`;
    case 'enum':
      return `must be one of ${error.params.allowedValues.map(show).join(', ')}, not ${show(value)}`;
    case 'minimum':
      return `must be at least ${error.params.limit}`;
    case 'maximum':
      return `must be at most ${error.params.limit}`;
    case 'minLength':
      return error.params.limit === 1 ? 'must not be empty' : `must have at least ${error.params.limit} characters`;
    case 'maxLength':
      return `must have at most ${error.params.limit} characters`;
    case 'minItems':
      return `must have at least ${error.params.limit} entries`;
    case 'maxItems':
    case 'maxProperties':
      return `must have at most ${error.params.limit} entries`;
    case 'pattern':
      return PATTERNS[String(error.params.pattern)] ?? `must match the pattern ${error.params.pattern}`;
    default:
      return error.message;
  }
}

function articled(type: string): string {
  if (type === 'null') return type;
  if (type === 'integer') return 'a whole number';
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`;
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'number' ? String(value) : articled(typeof value);
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > VALUE_SHOWN ? `${text.slice(0, VALUE_SHOWN)}…` : text;
}

/** Returns the field names of the object schema whose `additionalProperties` is at `pointer`. */
function knownNames(schema: TSchema, pointer: string): string[] {
  const owner = follow(schema, segments(pointer.replace(/^#/, '').replace(/\/additionalProperties$/, '')));
  const namesIn = (keyword: string) => Object.keys((follow(owner, [keyword]) ?? {}) as object);
  return [...namesIn('properties'), ...namesIn('patternProperties').map((pattern) => NAMES[pattern] ?? pattern)];
}

function follow(root: unknown, names: readonly string[]): unknown {
  let value = root;
  for (const name of names) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** Returns the unescaped segments of a JSON pointer. */
function segments(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}
