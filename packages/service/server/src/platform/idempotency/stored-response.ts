/** A file beside the database with the JSON of a response. */
export interface ResultFile {
  readonly name: string;
  /** Bytes of the JSON. */
  readonly bytes: number;
  /** Bytes that the file takes on the disk. */
  readonly diskBytes: number;
}

/** A response as it is stored for replay. */
export type StoredResponse =
  | { readonly status: number; readonly body: string }
  | { readonly status: number; readonly file: ResultFile };

/** Approximate bytes of a record without its response: its row, and its entries in three indexes. */
export const RECORD_BYTES = 1024;

/** Returns the approximate bytes that a record takes on the disk. */
export function storedBytesOf(response: StoredResponse | undefined): number {
  if (!response) return RECORD_BYTES;
  return RECORD_BYTES + ('file' in response ? response.file.diskBytes : Buffer.byteLength(response.body));
}
