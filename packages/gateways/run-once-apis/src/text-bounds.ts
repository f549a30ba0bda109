import { LIMITS } from '@cloche/contract';
import { z } from 'zod';

/** Largest body of a request. Code, input and files have at most as many characters. */
export const BODY_BYTES = 16 * 1024 * 1024;
/** Longest name of a language, and of its version: ranges of versions take time that grows with their length. */
const NAME_LENGTH = 256;

export const content = () => z.string().max(BODY_BYTES);
export const name = () => z.string().max(NAME_LENGTH);
export const path = () => z.string().min(1).max(LIMITS.filePathLength);

/** An optional field. Clients write `null` for a field that they leave out. */
export const optional = <Field extends z.ZodType>(field: Field, otherwise: z.output<Field>) =>
  field.nullish().transform((given) => given ?? otherwise);
