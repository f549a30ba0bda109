import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';

/** Characters of a path in an error message. The names in it are the sender's. */
const LONGEST_PATH = 256;

/** Returns a validator for Fastify. `toError` gets a message that names the first invalid part. */
export function messageValidator(schema: TSchema, toError: (message: string) => Error) {
  const compiled = Compile(schema);
  return (value: unknown): { value: unknown } | { error: Error } => {
    if (compiled.Check(value)) return { value };
    const [first] = compiled.Errors(value);
    const where = first?.instancePath === '' ? 'the message' : first?.instancePath.slice(0, LONGEST_PATH);
    return { error: toError(`${where} ${first?.message}`) };
  };
}
