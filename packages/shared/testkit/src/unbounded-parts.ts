type Schema = Readonly<Record<string, unknown>>;

/**
 * Returns the paths of what a JSON Schema leaves without a maximum: texts, lists, and objects whose fields have any
 * name. A schema that says nothing about a value, or that refers to itself, bounds nothing.
 */
export function unboundedParts(schema: unknown, at = '$'): string[] {
  if (typeof schema !== 'object' || schema === null) return [at];
  const { type, anyOf, oneOf, allOf, properties, items, additionalProperties, ...rest } = schema as Schema;
  const alternatives = [anyOf, oneOf, allOf].flatMap((list) => (Array.isArray(list) ? list : []));
  if (alternatives.length > 0) return alternatives.flatMap((part, index) => unboundedParts(part, `${at}|${index}`));
  if ('const' in rest || 'enum' in rest) return [];
  if (Array.isArray(type)) {
    return [...new Set(type.flatMap((each) => unboundedParts({ ...(schema as Schema), type: each }, at)))];
  }
  switch (type) {
    case 'null':
    case 'boolean':
    case 'integer':
    case 'number':
      return [];
    case 'string':
      return 'maxLength' in rest ? [] : [at];
    case 'array':
      return [...('maxItems' in rest ? [] : [at]), ...unboundedParts(items, `${at}[]`)];
    case 'object': {
      const named = Object.entries((properties ?? {}) as Schema);
      const parts = named.flatMap(([name, part]) => unboundedParts(part, `${at}.${name}`));
      if (typeof additionalProperties !== 'object') return parts;
      const names = unboundedParts(rest.propertyNames, `${at}.<name>`);
      const values = unboundedParts(additionalProperties, `${at}.*`);
      return [...parts, ...('maxProperties' in rest ? [] : [at]), ...names, ...values];
    }
    default:
      return [at];
  }
}
