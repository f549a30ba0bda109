import { type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import { ERRORS, type PreviewErrorCode } from '@cloche/contract';
import { REQUEST_ID_HEADER } from '../../../platform/http/request-id.ts';
import type { PreviewError } from './preview-error.ts';

/** Interval at which the page of a temporary problem reloads. */
const RETRY_SECONDS = 2;

const TITLES: Record<PreviewErrorCode, string> = {
  preview_bad_request: 'This request cannot be forwarded',
  preview_token_required: 'This preview is private',
  preview_token_wrong: 'This token does not open the preview',
  preview_not_found: 'Preview not found',
  preview_port_closed: 'No program listens on the port yet',
  preview_no_http: 'No HTTP response',
  sandbox_paused: 'The sandbox is paused',
  preview_busy: 'Too many connections',
  preview_unavailable: 'The sandbox cannot be reached',
  preview_timeout: 'No response in time',
};

/** Forbids scripts and all resources except inline styles. Any page may embed this one. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors *";

export interface ErrorReply {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  /** Status of `sandbox_paused`. Default: 503, and for a WebSocket that of the same error of the API. */
  readonly pausedStatus: number | undefined;
}

/** Answers with a page, or with JSON if the client asks for it. */
export function sendErrorPage(error: PreviewError, { request, response, requestId, pausedStatus }: ErrorReply): void {
  const isJson = wantsJson(request);
  const retries = error.isTemporary && request.method === 'GET';
  // A WebSocket cannot wait for the sandbox.
  const { upgrade } = request.headers;
  const ofPaused = pausedStatus ?? (upgrade === undefined ? error.status : ERRORS.sandbox_paused.status);
  const status = error.code === 'sandbox_paused' ? ofPaused : error.status;
  const text = isJson
    ? JSON.stringify({ error: { code: error.code, message: error.message, requestId } })
    : pageOf(error, retries ? RETRY_SECONDS : undefined);
  const headers: OutgoingHttpHeaders = {
    'content-type': `${isJson ? 'application/json' : 'text/html'}; charset=utf-8`,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'content-security-policy': POLICY,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex',
    [REQUEST_ID_HEADER]: requestId,
    ...(error.isTemporary ? { 'retry-after': String(RETRY_SECONDS) } : {}),
    ...(error.status === 401 ? { 'www-authenticate': 'Cloche-Preview' } : {}),
  };
  // Set explicitly: otherwise the status message of a failed app response could remain.
  response.writeHead(status, STATUS_CODES[status] ?? '', headers);
  response.end(text);
}

function wantsJson({ headers }: IncomingMessage): boolean {
  const { accept = '' } = headers;
  return accept.includes('json') && !accept.includes('text/html');
}

function pageOf(error: PreviewError, retrySeconds: number | undefined): string {
  const refresh = retrySeconds === undefined ? '' : `<meta http-equiv="refresh" content="${retrySeconds}">`;
  const note = retrySeconds === undefined ? '' : '<p class="note">This page reloads automatically.</p>';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
${refresh}
<title>${TITLES[error.code]}</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; place-content: center; min-height: 90vh; margin: 0 1.5rem; }
main { max-width: 34rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
p { margin: .5rem 0; }
.note { opacity: .7; font-size: .9rem; }
</style>
</head>
<body>
<main>
<h1>${TITLES[error.code]}</h1>
<p>${escapeHtml(error.message)}</p>
${note}
</main>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
