/** Constants kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/** Descriptor of the kernel's socket. */
export const KERNEL_SOCKET_FD = 3;

/** Limit of a frame; a larger one ends the kernel. The agent never buffers more than this for one message. */
export const MAX_KERNEL_FRAME_BYTES = 64 * 1024 * 1024;

/** MIME type of a DataFrame's first rows: `{ columns, rows, rowCount }`. */
export const DATA_MIME_TYPE = 'application/vnd.cloche.data+json';
/** MIME type of a matplotlib figure's data: `{ type, title?, axes: [{ title?, xLabel?, yLabel?, series: [...] }] }`. */
export const CHART_MIME_TYPE = 'application/vnd.cloche.chart+json';
