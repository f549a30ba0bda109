import { LIMITS } from '@cloche/contract';

/** A name, a path or an id. */
const SHORT_TEXT = { type: 'string', maxLength: 4096 } as const;
const OPTIONAL_TEXT = { type: ['string', 'null'], maxLength: SHORT_TEXT.maxLength } as const;
const ENVIRONMENT = {
  type: ['object', 'null'],
  maxProperties: LIMITS.envEntries,
  propertyNames: { type: 'string', maxLength: LIMITS.envBytes },
  additionalProperties: { type: 'string', maxLength: LIMITS.envBytes },
} as const;

/** Bodies of requests. Each text and each number of fields has a maximum. Other fields are ignored, as by Jupyter. */
export const BODY_SCHEMAS = {
  kernel: { type: ['object', 'null'], properties: { name: OPTIONAL_TEXT, env: ENVIRONMENT } },
  session: {
    type: 'object',
    properties: {
      path: SHORT_TEXT,
      name: OPTIONAL_TEXT,
      type: OPTIONAL_TEXT,
      notebook: { type: 'object', properties: { path: SHORT_TEXT, name: OPTIONAL_TEXT } },
      kernel: { type: ['object', 'null'], properties: { id: OPTIONAL_TEXT, name: OPTIONAL_TEXT } },
    },
  },
} as const;
