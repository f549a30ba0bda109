/**
 * Egress → server: HTTP/1.1 over `secrets.sock`, to which only the users of egress and of the server, and root, can
 * connect.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `POST /values` | `SecretQuestions` → `SecretAnswers`: the values for placeholders that a sandbox sends |
 *
 * Egress keeps no value: it asks for each request of a sandbox, so that a changed secret is in force at once and nothing
 * is lost when a process ends. It can ask only for placeholders that it has seen.
 */
import { randomBytes } from 'node:crypto';
import { type Static, Type } from 'typebox';

const PREFIX = 'clsec_';
const RANDOM_BYTES = 16;

/** Matches every placeholder in a text. */
export const PLACEHOLDERS = new RegExp(`${PREFIX}[0-9a-f]{${2 * RANDOM_BYTES}}`, 'g');

/** Returns a new placeholder, which is infeasible to guess. Its characters need no escaping in URLs and in base64. */
export function makePlaceholder(): string {
  return PREFIX + randomBytes(RANDOM_BYTES).toString('hex');
}

/** Returns whether a text can contain a placeholder; takes little time for one that cannot. */
export function mayHavePlaceholder(text: string): boolean {
  return text.includes(PREFIX);
}

/** Most questions of one message. */
export const MAX_SECRET_QUESTIONS = 64;

const Placeholder = Type.String({ pattern: `^${PREFIX}[0-9a-f]{${2 * RANDOM_BYTES}}$` });

/** A placeholder in a request to a host, which egress has normalized. */
export const SecretQuestion = Type.Object(
  {
    placeholder: Placeholder,
    host: Type.Union([
      Type.Object(
        { kind: Type.Literal('name'), name: Type.String({ maxLength: 253 }) },
        { additionalProperties: false },
      ),
      Type.Object(
        { kind: Type.Literal('ipv4'), address: Type.String({ maxLength: 15 }) },
        { additionalProperties: false },
      ),
    ]),
  },
  { additionalProperties: false },
);
export type SecretQuestion = Static<typeof SecretQuestion>;

export const SecretQuestions = Type.Object(
  {
    sandboxId: Type.String({ minLength: 1, maxLength: 64 }),
    questions: Type.Array(SecretQuestion, { maxItems: MAX_SECRET_QUESTIONS }),
  },
  { additionalProperties: false },
);
export type SecretQuestions = Static<typeof SecretQuestions>;

export const SecretAnswers = Type.Object({
  /** Values in the order of the questions; null for a placeholder that stays as it is. */
  values: Type.Array(Type.Union([Type.String({ maxLength: 32 * 1024 }), Type.Null()]), {
    maxItems: MAX_SECRET_QUESTIONS,
  }),
});
export type SecretAnswers = Static<typeof SecretAnswers>;
