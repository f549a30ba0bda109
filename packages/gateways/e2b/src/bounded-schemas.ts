/** Schemas of what E2B's clients send. Each text and each number of entries has the maximum of `/v1` for the same thing. */
import { LIMITS } from '@cloche/contract';

export const textUpTo = (maxLength: number) => ({ type: 'string', maxLength });
export const optionalTextUpTo = (maxLength: number) => ({ type: ['string', 'null'], maxLength });

/** Longest id, or name of a template or an image. */
const NAME_LENGTH = 512;
export const NAME = textUpTo(NAME_LENGTH);
export const OPTIONAL_NAME = optionalTextUpTo(NAME_LENGTH);

/** Texts by names. */
function mapOf(maxProperties: number, nameLength: number, valueLength: number) {
  return {
    type: ['object', 'null'],
    maxProperties,
    propertyNames: textUpTo(nameLength),
    additionalProperties: textUpTo(valueLength),
  };
}

export const METADATA = mapOf(LIMITS.metadataKeys, LIMITS.metadataKeyLength, LIMITS.metadataValueLength);
/** No kernel or program can have other names and values: they end at a NUL, and a name at `=`. */
export const ENVIRONMENT = {
  ...mapOf(LIMITS.envEntries, LIMITS.envBytes, LIMITS.envBytes),
  propertyNames: { ...textUpTo(LIMITS.envBytes), pattern: '^[^=\\u0000]+$' },
  additionalProperties: { ...textUpTo(LIMITS.envBytes), pattern: '^[^\\u0000]*$' },
};
/** One value is a secret's list of hosts, separated by commas. */
export const SECRET_METADATA = mapOf(LIMITS.metadataKeys, LIMITS.metadataKeyLength, LIMITS.networkHosts * 256);
