/**
 * Errors that a preview's host returns, as a page for people or, if `Accept` asks for it, as JSON in the format of all
 * errors. `docs/errors.md` is checked against it.
 */
export const PREVIEW_ERRORS = {
  preview_bad_request: { status: 400, means: 'The request cannot be forwarded.' },
  preview_token_required: { status: 401, means: 'The preview is private and the request has no token.' },
  preview_token_wrong: { status: 403, means: 'The token does not belong to this preview.' },
  preview_not_found: {
    status: 404,
    means: 'The preview does not exist, has expired or was deleted, or its sandbox has ended.',
  },
  preview_port_closed: { status: 502, means: 'Nothing listens on the port inside the sandbox.' },
  preview_no_http: { status: 502, means: 'The program on the port does not speak HTTP, or closed the connection.' },
  sandbox_paused: {
    status: 503,
    means: 'The sandbox is paused, and its policy is not `traffic`; a WebSocket is refused with 409.',
  },
  preview_busy: { status: 503, means: 'The preview has too many connections.' },
  preview_unavailable: { status: 503, means: 'The sandbox is not ready, or cannot be reached.' },
  preview_timeout: { status: 504, means: 'The program on the port did not answer in time.' },
} as const satisfies Record<string, { status: number; means: string }>;

export type PreviewErrorCode = keyof typeof PREVIEW_ERRORS;
