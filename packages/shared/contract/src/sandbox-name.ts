import { Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { Text } from './text.ts';

const FORM =
  'Name of 1 to 63 characters: lower-case letters, digits, `.`, `_` and `-`; the first and the last are a letter or a ' +
  'digit, and it does not begin with `sbx_`.';

const RULES = {
  minLength: 1,
  maxLength: LIMITS.sandboxNameLength,
  pattern: '^(?!sbx_)[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$',
  examples: ['web-app'],
};

const named = (description: string) => Text({ ...RULES, description });

/** The name of a sandbox. None begins as an id does, so that either can stand for a sandbox. */
export const SandboxName = named(FORM);

/** The name that a sandbox is given. */
export const UniqueName = named(
  `${FORM} Unique among the sandboxes of the project that are neither destroyed nor failed.`,
);

/** A new name, or none. */
export const NewName = Type.Unsafe<string | null>({
  ...RULES,
  type: ['string', 'null'],
  description: `The new name, by the rules of a creation. \`null\` removes the name.`,
});
