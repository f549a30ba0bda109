/** Sentences about what a registry refuses, and about connections that fail. */
import { ImageError } from '../read/image-error.ts';
import type { RegistryReply } from './registry-reply.ts';

const MAX_BODY_BYTES = 16 * 1024;
const MESSAGE_LENGTH = 200;

/** Whether a failed connection would fail again. */
export function isFinal(error: unknown): boolean {
  return /CERT|SIGNATURE|ISSUER|ERR_TLS|ERR_SSL/.test(codeOf(error));
}

/** Explains a failed connection. */
export function unreachable(error: unknown, url: URL): ImageError {
  const code = codeOf(error);
  if (/CERT|SIGNATURE|ISSUER/.test(code))
    return new ImageError(
      `The certificate of ${url.host} is not trusted (${code}); name its authority in from.caCertificates, or ask the ` +
        'operator to add it to those of the gateway.',
    );
  const why = code === 'ABORT_ERR' ? 'it does not answer in time' : code || String(error);
  return new ImageError(`${url.host} cannot be reached: ${why}.`);
}

/** Explains an answer that is a refusal. */
export async function refusalOf(
  reply: RegistryReply,
  { image, hasAccount }: { readonly image: string; readonly hasAccount: boolean },
): Promise<ImageError> {
  const said = await messageOf(reply);
  const { host } = reply.url;
  const suffix = said === '' ? '.' : `: ${said}`;
  if (reply.status === 404) return new ImageError(`The registry has no such image of ${image} (404)${suffix}`);
  if (reply.status === 401)
    return new ImageError(
      hasAccount
        ? `${host} refuses the credentials for ${image} (401); the hosts of the secret must include ${reply.url.hostname}${suffix}`
        : `${image} does not exist, or needs from.credentials (401)${suffix}`,
    );
  return new ImageError(`${host} answers ${reply.status} for ${image}${suffix}`);
}

/** Returns what the answer says, as a sentence; empty if it is nothing for people. */
async function messageOf(reply: RegistryReply): Promise<string> {
  let text: string;
  try {
    text = (await reply.bytes(MAX_BODY_BYTES)).toString();
  } catch {
    return '';
  }
  let said = /^\s*</.test(text) ? '' : text;
  try {
    const { errors, error, message } = JSON.parse(text);
    const [first] = Array.isArray(errors) ? errors : [];
    said = [first?.message ?? first?.code, message, error].find((each) => typeof each === 'string') ?? '';
  } catch {
    // The text itself then.
  }
  const line = said
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, MESSAGE_LENGTH)
    .toWellFormed();
  return line === '' ? '' : `${line.replace(/[.!]$/, '')}.`;
}

function codeOf(error: unknown): string {
  const { code, name, cause } = error as NodeJS.ErrnoException & { cause?: NodeJS.ErrnoException };
  const of = cause?.code ?? code;
  if (typeof of === 'string') return of;
  return name === 'AbortError' ? 'ABORT_ERR' : (cause?.message ?? '');
}
