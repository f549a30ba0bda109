/** The table of fronts: where requests arrive, and what one of them can take. docs/threat-model.md shows it. */
import { LIMITS } from '@cloche/contract';
import { MAX_JSON_DEPTH } from '@cloche/node-support';
import type { BeforeKey, BodyBounds, Front } from '../http/front.ts';

const MEBIBYTE = 1024 * 1024;
const BEFORE: BeforeKey = { headBytes: LIMITS.headerBytes, headFields: 256, bodyBytes: 0, seconds: 10 };
const NO_BODY: BodyBounds = { bytes: 0, decompressedBytes: 0, jsonValues: 0, jsonLevels: 0, seconds: 60 };
/** Bytes that are passed on as they come. */
const STREAMED: BodyBounds = { bytes: 'any', decompressedBytes: 0, jsonValues: 0, jsonLevels: 0, seconds: 'stall' };
const OF_ORGANIZATION = 'requests under way and `requestsPerMinute` of the organization';
const OF_ADDRESS = 'connections of the address';

function json(bytes: number, jsonValues: number): BodyBounds {
  return { bytes, decompressedBytes: 0, jsonValues, jsonLevels: MAX_JSON_DEPTH, seconds: 60 };
}

/** A front on the port of the API. */
function open(opens: string, body: BodyBounds, pays: string, reason?: string): Front {
  return { opens, before: BEFORE, body, pipelined: 16, connections: 'by address', pays, ...(reason && { reason }) };
}

export const FRONTS = {
  '/v1': open('API key', json(LIMITS.bodyBytes, LIMITS.bodyValues), OF_ORGANIZATION),
  '/v1, uploads': open('API key', STREAMED, OF_ORGANIZATION),
  '/v1/downloads': open('signed link', NO_BODY, OF_ADDRESS),
  '/v1/uploads': open('signed link', STREAMED, OF_ADDRESS),
  '/e2b': open('API key', json(8 * MEBIBYTE, 100_000), OF_ORGANIZATION),
  '/e2b/template-files': open('sealed token', { ...STREAMED, bytes: 1024 * MEBIBYTE }, OF_ORGANIZATION),
  '/e2b-box': open('token of the sandbox', json(8 * MEBIBYTE, 100_000), OF_ORGANIZATION),
  '/e2b-box/files': open('token of the sandbox', { ...STREAMED, decompressedBytes: 'any' }, OF_ORGANIZATION),
  '/e2b-box/health': open('nothing', NO_BODY, OF_ADDRESS, 'says only whether a sandbox of this id runs'),
  '/files': open('signed link', { ...STREAMED, decompressedBytes: 'any' }, OF_ORGANIZATION),
  'ports of E2B': open('token of the sandbox', STREAMED, 'connections through previews of the organization'),
  '/jupyter': open('API key', json(MEBIBYTE, 2000), OF_ORGANIZATION),
  '/jupyter, version and logos': open('nothing', NO_BODY, OF_ADDRESS, 'browsers send no key for a picture'),
  '/mcp': open('API key', json(8 * MEBIBYTE, 10_000), OF_ORGANIZATION),
  '/dify/health': open('nothing', NO_BODY, OF_ADDRESS, 'is the same for all'),
  'run APIs': open('API key', json(16 * MEBIBYTE, 10_000), OF_ORGANIZATION),
} as const satisfies Record<string, Front>;
