/** Bounded types for the schemas of messages: a peer may be hostile, and what it sends is held and stored. */
import { type TSchema, Type } from 'typebox';

/** An id, a code, a version or a time. */
export const Word = Type.String({ maxLength: 256 });
/** A sentence for people. */
export const Sentence = Type.String({ maxLength: 32 * 1024 });
/** A path of at most 4096 bytes and a name, each byte of them as a percent escape. */
export const Path = Type.String({ maxLength: 3 * (4096 + 256) + 8 });
/** A count, or a number of bytes or milliseconds. */
export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** A number from 1. */
export const Ordinal = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
/** A measured amount, fractions included. */
export const Amount = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** Environment variables; a kernel accepts no longer ones. */
export const Environment = mapOf(Type.String({ maxLength: 131_072 }), 1_024);

/** Most instances, versions or sandboxes in one list. */
export const MAX_LISTED = 100_000;

/** A map with bounded names. A name that a plain pattern leaves out, such as one with a line feed, would pass with any value. */
export function mapOf<Value extends TSchema>(value: Value, maxProperties: number, maxNameLength = 256) {
  const name = Type.String({ pattern: `^[\\s\\S]{0,${maxNameLength}}$` });
  return Type.Record(name, value, { maxProperties, additionalProperties: false });
}
