/** Kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/** The descriptor a kernel finds its socket on. */
export const KERNEL_SOCKET_FD = 3;

/** Larger frames end the kernel: the agent never buffers more than this for one message. */
export const MAX_KERNEL_FRAME_BYTES = 64 * 1024 * 1024;

/** A DataFrame's first rows, as the value of this MIME type: `{ columns, rows, rowCount }`. */
export const DATA_MIME_TYPE = 'application/vnd.cloche.data+json';
/** What a matplotlib figure shows: `{ type, title?, axes: [{ title?, xLabel?, yLabel?, series: [...] }] }`. */
export const CHART_MIME_TYPE = 'application/vnd.cloche.chart+json';
