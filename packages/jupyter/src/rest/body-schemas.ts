import { LIMITS } from '@cloche/contract';

/** A name, a path or an id. */
const SHORT_TEXT = { type: 'string', maxLength: 4096 } as const;
const OPTIONAL_TEXT = { type: ['string', 'null'], maxLength: SHORT_TEXT.maxLength } as const;
const ENVIRONMENT = {
  type: 'object',
  maxProperties: LIMITS.envEntries,
  propertyNames: { type: 'string', maxLength: LIMITS.envBytes },
  additionalProperties: { type: 'string', maxLength: LIMITS.envBytes },
} as const;

/** Bodies of requests. Each text and each number of fields has a maximum. */
export const BODY_SCHEMAS = {
  kernel: { type: ['object', 'null'], properties: { name: SHORT_TEXT, env: ENVIRONMENT } },
  session: {
    type: 'object',
    properties: {
      path: SHORT_TEXT,
      name: SHORT_TEXT,
      type: SHORT_TEXT,
      kernel: { type: ['object', 'null'], properties: { id: OPTIONAL_TEXT, name: OPTIONAL_TEXT } },
    },
  },
} as const;
