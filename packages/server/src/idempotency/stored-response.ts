/** JSON that is kept in a file beside the database. */
export interface ResultFile {
  readonly name: string;
  /** Of the JSON. */
  readonly bytes: number;
  /** What it takes on the disk. */
  readonly diskBytes: number;
}

/** What a request answered, as it is replayed. */
export type StoredResponse =
  | { readonly status: number; readonly body: string }
  | { readonly status: number; readonly file: ResultFile };

/** What a record takes besides its response: its row, and its entries in three indexes. */
export const RECORD_BYTES = 1024;

/** What a record takes on the disk, about. */
export function storedBytesOf(response: StoredResponse | undefined): number {
  if (!response) return RECORD_BYTES;
  return RECORD_BYTES + ('file' in response ? response.file.diskBytes : response.body.length);
}
