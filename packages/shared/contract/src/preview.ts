import { type Static, Type } from 'typebox';
import { OrgIdSchema, PreviewIdSchema, ProjectIdSchema, SandboxIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const PREVIEW_VISIBILITIES = ['private', 'public'] as const;
export type PreviewVisibility = (typeof PREVIEW_VISIBILITIES)[number];

/** Header with the token of a private preview. The app never gets it. */
export const PREVIEW_TOKEN_HEADER = 'x-cloche-preview-token';
/** Query parameter with the token of a private preview. The service moves it to a cookie of the preview's host. */
export const PREVIEW_TOKEN_PARAMETER = 'cloche_token';

export const Preview = Type.Object(
  {
    id: PreviewIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    sandboxId: SandboxIdSchema,
    port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'Port inside the sandbox.' }),
    url: Type.String({
      format: 'uri',
      description: 'URL of the preview, for HTTP and WebSocket. Its host belongs to this preview alone.',
    }),
    visibility: oneOf(PREVIEW_VISIBILITIES),
    createdAt: Timestamp,
    expiresAt: timestamp('When the preview closes.'),
    deletedAt: Type.Optional(timestamp('When the preview was deleted.')),
    accessToken: Type.Optional(
      Type.String({
        description:
          'Token that opens a private preview; only the response to its creation contains it. Send it as the header ' +
          `\`${PREVIEW_TOKEN_HEADER}\`, or open the URL with the query parameter \`${PREVIEW_TOKEN_PARAMETER}\`, which ` +
          'becomes a cookie of the host.',
      }),
    ),
  },
  { $id: 'Preview' },
);
export type Preview = Static<typeof Preview>;

export const OpenPreviewBody = Type.Object(
  {
    port: Type.Integer({
      minimum: 1,
      maximum: 65_535,
      description: 'Port inside the sandbox. A program may start to listen on it later.',
    }),
    visibility: Type.Optional(
      oneOf(
        PREVIEW_VISIBILITIES,
        '`private`: requests need the token. `public`: requests need only the URL. Default: `private`.',
      ),
    ),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.updateTtlMaxMs,
        description: 'Lifetime in milliseconds. Default and maximum: the remaining lifetime of the sandbox.',
      }),
    ),
  },
  { $id: 'OpenPreview', additionalProperties: false, examples: [{ port: 8000 }] },
);
export type OpenPreviewBody = Static<typeof OpenPreviewBody>;
