import { Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { Text } from './text.ts';

export const ENVIRONMENT_NAME = '^[A-Za-z_][A-Za-z0-9_]*$';

/** Returns the schema of the environment of a sandbox or a command. */
export const environment = (description: string) =>
  Type.Record(Type.String(), Text(), {
    maxProperties: LIMITS.envEntries,
    propertyNames: { pattern: ENVIRONMENT_NAME, maxLength: 256 },
    description: `${description} Values are used as they are: no variable in them is expanded. Names and values together have at most ${LIMITS.envBytes} bytes of UTF-8.`,
    examples: [{ LOG_LEVEL: 'debug' }],
  });
