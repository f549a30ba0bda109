/**
 * Which requests stay together at one server, because that server has in memory what they need.
 *
 * - **Of a sandbox**: E2B's watchers that clients poll, and its ports; Jupyter's kernels, with the queue of their
 *   requests, their clients, and what those have missed.
 * - **At one server**: tokens of E2B's sandboxes, in which the sandbox of a signed URL is found, and names of Jupyter's
 *   sessions. These requests name no sandbox, or ask about all of them.
 *
 * A client can choose its server by these rules, but gets no rights there: each server checks every request.
 */

/** Longer than a sandbox lives. */
const REMEMBERED = '24h';

/** Rules of the frontend of the API. They go before `default_backend`. */
export const AFFINITY_RULES: readonly string[] = [
  // Apps of previews have paths of their own.
  "acl of_preview req.hdr(host) -m reg -i '(^|\\.)prv-'",
  "acl of_port req.hdr(host) -m reg -i '^[0-9]{1,5}-sbx[_-][0-9a-z]+\\.'",
  'acl of_sandbox path_beg /e2b-box/',
  'acl of_kernel path -m reg ^/jupyter/api/kernels/[^/]*sbx_',
  'acl of_session path -m reg ^/jupyter/api/sessions/[^/]*sbx_',
  'acl of_tokens path_beg /e2b/sandboxes /e2b/v2/sandboxes',
  'acl of_signed_url path /files',
  'acl of_session_names path_beg /jupyter/api/sessions',
  // The id without its prefix, so that all three protocols find the same server.
  'http-request set-var(txn.sandbox) req.hdr(host),lower,field(1,.),regsub(^.*sbx[_-],) if of_port',
  'http-request set-var(txn.sandbox) req.hdr(e2b-sandbox-id),regsub(^sbx_,) if of_sandbox !of_preview !of_port',
  'http-request set-var(txn.sandbox) path,regsub(^.*sbx_,),field(1,-) if of_kernel !of_preview !of_port',
  // The end of a session is the end of its kernel.
  'http-request set-var(txn.sandbox) path,regsub(^.*sbx_,),field(1,-) if of_session METH_DELETE !of_preview !of_port',
  'use_backend sandbox_servers if { var(txn.sandbox) -m found }',
  'use_backend one_server if of_tokens !of_preview',
  'use_backend one_server if of_signed_url !of_preview',
  'use_backend one_server if of_session_names !of_preview',
];

/**
 * How the server of a sandbox is chosen. The hash finds the same server again after a restart of the load balancer, and
 * moves only the sandboxes of a dead server. The table keeps a sandbox where it has moved when that server is back:
 * otherwise a kernel would have clients at both. A client can fill the table with invented ids. A full table drops the
 * ids that were not used for the longest time, whose server is then the one of the hash.
 */
export const BY_SANDBOX: readonly string[] = [
  'balance hash var(txn.sandbox)',
  'hash-type consistent',
  `stick-table type string len 32 size 100k expire ${REMEMBERED}`,
  'stick on var(txn.sandbox)',
];

/** The first server that is ready, until it is not: the next one keeps the requests when the first is back. */
export const ONE_SERVER: readonly string[] = ['balance first', 'stick-table type integer size 2', 'stick on int(1)'];
