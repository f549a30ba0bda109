/**
 * Field in which a protocol beside `/v1` names its client to `/v1`. The server sets it in each request that it gives to
 * such a protocol, signed, and believes no other.
 */
export const CALLER_FIELD = 'cloche-caller';
