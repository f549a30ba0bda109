import type { IncomingMessage } from 'node:http';
import { PREVIEW_TOKEN_PARAMETER } from '@cloche/contract';
import { isPreviewToken } from '../preview-token.ts';
import type { Served } from '../public-ports.ts';
import { cookiesOf, fieldOf, tokenHeaderOf } from './fields.ts';
import { PreviewError } from './preview-error.ts';

export type Entry =
  /** `target` is the path and query for the app, without the token. */
  | { readonly kind: 'open'; readonly target: string }
  /** A redirect to the same URL without the token, which is now in a cookie. */
  | { readonly kind: 'redirect'; readonly target: string; readonly setCookie: string };

/** Returns the cookie's name. Other hosts cannot set a cookie with the prefix `__Host-`, which requires HTTPS. */
export function tokenCookieName(isSecure: boolean): string {
  return isSecure ? '__Host-cloche-preview' : 'cloche-preview';
}

/**
 * Decides whether a request may pass, and with which target.
 *
 * @param host the host of the preview
 * @throws PreviewError
 */
export function enter(
  request: IncomingMessage,
  preview: Pick<Served, 'tokenHash'>,
  host: string,
  isSecure: boolean,
): Entry {
  const { url = '/', rawHeaders } = request;
  if (!url.startsWith('/') && url !== '*') {
    throw new PreviewError('preview_bad_request', 'The target of the request must be a path, such as /index.html.');
  }
  const { target, token } = takeToken(url);
  const { tokenHash } = preview;
  if (tokenHash === undefined) return { kind: 'open', target };
  const opens = (text: string | undefined) => text !== undefined && isPreviewToken(text, tokenHash);
  const cookie = tokenCookieName(isSecure);

  if (token !== undefined && opens(token)) {
    const isNavigation = request.method === 'GET' && request.headers.upgrade === undefined;
    if (!isNavigation) return { kind: 'open', target };
    const secure = isSecure ? '; Secure' : '';
    return { kind: 'redirect', target, setCookie: `${cookie}=${token}; Path=/; HttpOnly; SameSite=Lax${secure}` };
  }
  const header = tokenHeaderOf(rawHeaders);
  if (opens(header)) return { kind: 'open', target };
  const cookies = cookiesOf(rawHeaders, cookie);
  if (cookies.some(opens) && isOwnRequest(request, host)) return { kind: 'open', target };
  if (token !== undefined || header !== undefined) {
    throw new PreviewError(
      'preview_token_wrong',
      'The token is wrong or belongs to another preview; ask the creator of this preview for its token.',
    );
  }
  const how = `Add the access token to the URL (?${PREVIEW_TOKEN_PARAMETER}=…); the creator of the preview has the token.`;
  throw new PreviewError('preview_token_required', how);
}

/**
 * Returns whether the cookie may give access. The request must come from the preview's own pages, directly from the
 * user, or from a link that opens a visible page. Previews can share a site, and then SameSite lets a page of one
 * preview send the cookie of another.
 *
 * SECURITY: a frame (`iframe`, `frame`, `object`, `embed`, `fencedframe`) or a prefetch of another origin is refused.
 * Held by "does not accept its cookie from pages of other origins, except for links" in private-previews.test.ts.
 */
function isOwnRequest({ method, rawHeaders }: IncomingMessage, host: string): boolean {
  const site = fieldOf(rawHeaders, 'sec-fetch-site');
  if (site === undefined) {
    const origin = fieldOf(rawHeaders, 'origin');
    return origin === undefined || URL.parse(origin)?.host === host.toLowerCase();
  }
  if (site === 'same-origin') return true;
  // Chromium reports the site of a page's prefetch as `none`, as if the user had typed the address.
  if (['sec-purpose', 'purpose'].some((name) => fieldOf(rawHeaders, name)?.startsWith('prefetch'))) return false;
  if (site === 'none') return true;
  const isRead = method === 'GET' || method === 'HEAD';
  const isPage =
    fieldOf(rawHeaders, 'sec-fetch-mode') === 'navigate' && fieldOf(rawHeaders, 'sec-fetch-dest') === 'document';
  return isRead && isPage;
}

/** Removes the token parameter; the rest of the query is unchanged. */
function takeToken(url: string): { target: string; token: string | undefined } {
  const [path = '', query] = url.split(/\?(.*)/s);
  if (query === undefined) return { target: url, token: undefined };
  let token: string | undefined;
  const rest = query.split('&').filter((part) => {
    const [name, value = ''] = part.split(/=(.*)/s);
    if (name !== PREVIEW_TOKEN_PARAMETER) return true;
    token ??= value;
    return false;
  });
  if (token === undefined) return { target: url, token };
  return { target: rest.length === 0 ? path : `${path}?${rest.join('&')}`, token };
}
