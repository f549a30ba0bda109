/** Converts schemas for the document. TypeBox schemas are already JSON Schema. */
import type { TSchema } from 'typebox';

export type Json = Record<string, unknown>;
/** The schemas with an `$id`, which others refer to. */
export type Components = Map<string, unknown>;

/** Returns a reference to a schema with an `$id`, which becomes a component. Returns any other schema inline. */
export function refer(schema: TSchema, components: Components): unknown {
  const { $id, ...rest } = schema as TSchema & { $id?: string };
  const inner = referInside(rest, components);
  if ($id === undefined) return inner;
  if (!components.has($id)) components.set($id, inner);
  return { $ref: `#/components/schemas/${$id}` };
}

function referInside(value: unknown, components: Components): unknown {
  if (Array.isArray(value)) return value.map((item) => referInside(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const { documented, ...keywords } = value as Json & { documented?: Json };
  return Object.fromEntries(
    Object.entries({ ...keywords, ...documented }).map(([key, child]) => {
      const isSchema = typeof child === 'object' && child !== null && '$id' in child;
      return [key, isSchema ? refer(child as TSchema, components) : referInside(child, components)];
    }),
  );
}
