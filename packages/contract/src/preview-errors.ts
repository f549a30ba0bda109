/**
 * What the host of a preview answers for itself: a page for people, or this catalogue's code in the form of every other
 * error where JSON is asked for. `docs/errors.md` is checked against it.
 */
export const PREVIEW_ERRORS = {
  preview_bad_request: { status: 400, means: 'The request is not one that can be passed on.' },
  preview_token_required: { status: 401, means: 'The preview is private and the request has no token.' },
  preview_token_wrong: { status: 403, means: "The token is not this preview's." },
  preview_not_found: { status: 404, means: 'Unknown, expired, closed, or its sandbox has ended.' },
  preview_port_closed: { status: 502, means: 'Nothing listens on the port inside the sandbox.' },
  preview_no_http: { status: 502, means: 'What listens there speaks no HTTP, or ended the connection.' },
  preview_busy: { status: 503, means: 'Too many connections through the preview at once.' },
  preview_unavailable: { status: 503, means: 'The sandbox is not ready yet, or cannot be reached now.' },
  preview_timeout: { status: 504, means: 'What listens there did not answer in time.' },
} as const satisfies Record<string, { status: number; means: string }>;

export type PreviewErrorCode = keyof typeof PREVIEW_ERRORS;
