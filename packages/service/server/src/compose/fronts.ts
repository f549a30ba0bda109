/**
 * The table of fronts: where requests arrive, and what one of them can take. The gate before the protocols beside `/v1`
 * enforces their rows; fronts.test.ts tries each limit, and compares the table with docs/threat-model.md.
 *
 * Not here is the agent of a sandbox: only the service connects to it, and what ends it ends one sandbox
 * (docs/design/isolation.md, Connections).
 */
import { LIMITS } from '@cloche/contract';
import { MAX_JSON_DEPTH } from '@cloche/node-support';
import { BEFORE_KEY, type BodyBounds, type Front, OWN_HEAD_SECONDS } from '../platform/http/front.ts';

const MEBIBYTE = 1024 * 1024;
const NO_BODY: BodyBounds = { bytes: 0, decompressedBytes: 0, jsonValues: 0, jsonLevels: 0, seconds: 60 };
/** Bytes that are passed on as they come. */
const STREAMED: BodyBounds = { bytes: 'any', decompressedBytes: 0, jsonValues: 0, jsonLevels: 0, seconds: 'stall' };
const BOX_FILES: BodyBounds = { ...STREAMED, decompressedBytes: 'any' };
const PROXIED: BodyBounds = { ...STREAMED, decompressedBytes: 'any', seconds: 'any' };
const ORGANIZATION = 'organization';
const ADDRESS = 'address';
const PREVIEWS = 'previews';

function json(bytes: number, jsonValues: number): BodyBounds {
  return { bytes, decompressedBytes: 0, jsonValues, jsonLevels: MAX_JSON_DEPTH, seconds: 60 };
}

/** A front on the port of the API. */
function open(opens: string, body: BodyBounds, pays: string, reason?: string): Front {
  const limits = { pipelined: 16, connections: 'by address' } as const;
  return { opens, before: BEFORE_KEY, body, ...limits, pays, ...(reason && { reason }) };
}

/** A front on a Unix socket: what can connect is trusted with a body. */
function own(opens: string, bytes: number, jsonValues: number): Front {
  const before = { ...BEFORE_KEY, bodyBytes: bytes, seconds: OWN_HEAD_SECONDS };
  const reason = 'other users cannot connect';
  const limits = { pipelined: 16, connections: 'of its user' } as const;
  return { opens, before, reason, body: json(bytes, jsonValues), ...limits, pays: 'nothing' };
}

export const FRONTS = {
  '/v1': open('API key', json(LIMITS.bodyBytes, LIMITS.bodyValues), ORGANIZATION),
  '/v1, uploads': open('API key', STREAMED, ORGANIZATION),
  '/downloads': open('signed link', NO_BODY, ADDRESS),
  '/uploads': open('signed link', STREAMED, ADDRESS),
  '/e2b': open('API key', json(8 * MEBIBYTE, 100_000), ORGANIZATION),
  '/e2b/template-files': open('sealed token', { ...STREAMED, bytes: 1024 * MEBIBYTE }, ORGANIZATION),
  '/e2b-box': open('token of the sandbox', json(8 * MEBIBYTE, 100_000), ORGANIZATION),
  '/e2b-box/files': open('token of the sandbox', BOX_FILES, ORGANIZATION),
  '/e2b-box/health': open('nothing', NO_BODY, ADDRESS, 'says only whether a sandbox of this id runs'),
  '/files': open('signed link', BOX_FILES, ORGANIZATION),
  'ports of E2B': open('token of the sandbox, unless public', PROXIED, PREVIEWS),
  previews: open('token or cookie, unless public', PROXIED, PREVIEWS),
  '/jupyter': open('API key', json(MEBIBYTE, 2000), ORGANIZATION),
  '/jupyter, version and logos': open('nothing', NO_BODY, ADDRESS, 'browsers send no key for a picture'),
  '/mcp': open('API key', json(8 * MEBIBYTE, 10_000), ORGANIZATION),
  'run APIs': open('API key', json(16 * MEBIBYTE, 10_000), ORGANIZATION),
  '/dify/health': open('nothing', NO_BODY, ADDRESS, 'is the same for all'),
  '/docs, /openapi.json': open('nothing', NO_BODY, ADDRESS, 'is the same for all, from memory'),
  '/healthz, /readyz, /metrics': open('nothing', NO_BODY, ADDRESS, 'is found once a second for all'),
  'socket of operators': own('being the user of the server', LIMITS.bodyBytes, LIMITS.bodyValues),
  'socket for secrets': own('being the user of egress', LIMITS.bodyBytes, LIMITS.bodyValues),
  'socket of hostd': { ...own('being the user of the server', 64 * 1024, 10_000), pipelined: 2 },
  'socket of egress': { ...own('being root', 272 * MEBIBYTE, 1_310_720), pipelined: 2 },
} as const satisfies Record<string, Front>;

export type FrontName = keyof typeof FRONTS;
