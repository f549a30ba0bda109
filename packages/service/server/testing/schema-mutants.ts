/** Makes values for a JSON Schema: some that each violate one constraint, and some at the bounds of the constraints. */
export type Schema = Readonly<Record<string, unknown>>;

export interface Mutant {
  /** The constraint that the value breaks, or the bound that the value is at. */
  readonly what: string;
  readonly value: unknown;
}

/** Texts of which at least one breaks any pattern of the contract. */
const ODD_TEXTS = ['a\0b', '', ' ', '/', 'é', 'UPPER', '1x', '-a', 'a b', 'x'.repeat(300)];

/** Returns `good` with one constraint of `schema` broken, for each constraint; `resolve` follows references. */
export function mutantsOf(schema: Schema, good: unknown, resolve: (schema: Schema) => Schema): Mutant[] {
  const { type: types, anyOf, ...keywords } = resolve(schema);
  if (Array.isArray(anyOf) && types === undefined)
    return [{ what: 'of no type', value: 7 }, ...mutantsOfBranches(anyOf, resolve)];
  // Of several types, the first one has the constraints.
  const [type] = [types].flat();
  switch (type) {
    case 'string':
      return mutantsOfText({ ...keywords, ...(anyOf === undefined ? {} : { format: anyOf }) }).filter(
        ({ what }) => what !== 'null' || ![types].flat().includes('null'),
      );
    case 'integer':
    case 'number':
      return mutantsOfNumber(keywords, type === 'integer');
    case 'boolean':
      return [{ what: 'a text', value: 'true' }];
    case 'array':
      return mutantsOfList(keywords, good, resolve);
    case 'object':
      return mutantsOfObject(keywords, good, resolve);
    default:
      return [];
  }
}

function mutantsOfBranches(branches: readonly Schema[], resolve: (schema: Schema) => Schema): Mutant[] {
  return branches.flatMap((branch) => {
    const good = resolve(branch).type === 'array' ? ['echo', 'a'] : 'echo';
    return mutantsOf(branch, good, resolve).filter(({ value }) => Array.isArray(value) === Array.isArray(good));
  });
}

function mutantsOfText({ minLength, maxLength, pattern, format, enum: values, ...rest }: Schema): Mutant[] {
  const regExp = typeof pattern === 'string' ? new RegExp(pattern, 'u') : undefined;
  const broken = ODD_TEXTS.filter((text) => regExp?.test(text) === false);
  return [
    { what: 'a number', value: 7 },
    { what: 'null', value: null },
    ...(Number(minLength) > 0 ? [{ what: `minLength ${minLength}`, value: 'a'.repeat(Number(minLength) - 1) }] : []),
    ...(maxLength === undefined ? [] : [{ what: `maxLength ${maxLength}`, value: 'a'.repeat(Number(maxLength) + 1) }]),
    ...broken.map((value) => ({ what: `pattern ${JSON.stringify(value.slice(0, 9))}`, value })),
    ...(values === undefined ? [] : [{ what: 'no value of the list', value: 'nope' }]),
    // Of a time, a day and a URI.
    ...(format === undefined ? [] : ['nope', '2026-13-01', '2026-01-01T25:00:00Z', '//x'].map(asBrokenFormat)),
    ...(rest.const === undefined ? [] : [{ what: 'another constant', value: 'nope' }]),
  ];
}

function asBrokenFormat(value: string): Mutant {
  return { what: `the format of ${value}`, value };
}

function mutantsOfNumber({ minimum, maximum }: Schema, isInteger: boolean): Mutant[] {
  const step = isInteger ? 1 : 0.01;
  return [
    { what: 'a text', value: 'seven' },
    ...(isInteger ? [{ what: 'a fraction', value: Number(minimum ?? 0) + 0.5 }] : []),
    ...(minimum === undefined ? [] : [{ what: `minimum ${minimum}`, value: Number(minimum) - step }]),
    ...(maximum === undefined ? [] : [{ what: `maximum ${maximum}`, value: Number(maximum) + step }]),
  ];
}

function mutantsOfList(keywords: Schema, good: unknown, resolve: (schema: Schema) => Schema): Mutant[] {
  const { items, prefixItems, minItems, maxItems } = keywords as {
    items: Schema;
    prefixItems?: Schema[];
    minItems?: number;
    maxItems?: number;
  };
  const list = Array.isArray(good) && good.length > 0 ? good : ['example.com'];
  return [
    { what: 'a number', value: 7 },
    ...(minItems === undefined ? [] : [{ what: `minItems ${minItems}`, value: [] }]),
    ...(maxItems === undefined
      ? []
      : [
          {
            what: `maxItems ${maxItems}`,
            value: Array.from({ length: maxItems + 1 }, (_, at) => list[at] ?? `a${at}`),
          },
        ]),
    ...[items, ...(prefixItems ?? [])].flatMap((item, at) =>
      mutantsOf(item, list[0], resolve).map(({ what, value }) => ({
        what: `item ${what}`,
        value: at === 0 ? [...list, value] : [value],
      })),
    ),
  ];
}

function mutantsOfObject(keywords: Schema, good: unknown, resolve: (schema: Schema) => Schema): Mutant[] {
  const {
    properties = {},
    patternProperties,
    required = [],
    maxProperties,
    propertyNames,
  } = keywords as {
    properties?: Record<string, Schema>;
    patternProperties?: Record<string, Schema>;
    required?: string[];
    maxProperties?: number;
    propertyNames?: { pattern?: string; maxLength?: number };
  };
  const object = good as Record<string, unknown>;
  const each = (name: string, schema: Schema) =>
    mutantsOf(schema, object[name] ?? exampleOf(resolve(schema)), resolve).map(({ what, value }) => ({
      what: `${name}: ${what}`,
      value: { ...object, [name]: value },
    }));
  const values = Object.values(patternProperties ?? {})[0] ?? (keywords.additionalProperties as Schema | undefined);
  return [
    { what: 'a list', value: [] },
    ...Object.entries(properties).flatMap(([name, schema]) => each(name, schema)),
    ...(typeof values === 'object' && maxProperties !== undefined ? each('A', values) : []),
    ...(keywords.additionalProperties === false ? [{ what: 'unknown field', value: { ...object, unknown: 1 } }] : []),
    ...required.map((name) => ({
      what: `without ${name}`,
      value: Object.fromEntries(Object.entries(object).filter(([known]) => known !== name)),
    })),
    ...(maxProperties === undefined
      ? []
      : [
          {
            what: `maxProperties ${maxProperties}`,
            value: Object.fromEntries(Array.from({ length: maxProperties + 1 }, (_, at) => [`a${at}`, 'x'])),
          },
        ]),
    ...(propertyNames?.maxLength === undefined
      ? []
      : [{ what: 'long name', value: { ['a'.repeat(propertyNames.maxLength + 1)]: 'x' } }]),
    ...(propertyNames?.pattern === undefined ? [] : [{ what: 'name with NUL', value: { 'a\0b': 'x' } }]),
  ];
}

/** Values at the bounds of each field of an object, which are good. */
export function boundsOf(schema: Schema, good: unknown, resolve: (schema: Schema) => Schema): Mutant[] {
  const { properties = {} } = resolve(schema) as { properties?: Record<string, Schema> };
  return Object.entries(properties).flatMap(([name, property]) => {
    const { type, minimum, maximum, minLength, maxLength } = resolve(property) as Record<string, number> & {
      type: string;
    };
    const values =
      type === 'string' ? [minLength, maxLength].map((length) => length && 'a'.repeat(length)) : [minimum, maximum];
    const pattern = new RegExp(String((resolve(property) as Schema).pattern ?? ''), 'u');
    return values.flatMap((value) =>
      value === undefined || value === 0 || !pattern.test(String(value))
        ? []
        : [{ what: name, value: { ...(good as object), [name]: value } }],
    );
  });
}

export function exampleOf({ examples, default: standard, enum: values }: Schema): unknown {
  return (examples as unknown[] | undefined)?.[0] ?? standard ?? (values as unknown[] | undefined)?.[0] ?? {};
}
