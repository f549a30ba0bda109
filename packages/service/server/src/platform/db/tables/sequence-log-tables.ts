export interface SequenceLogTables {
  sequence_logs: SequenceLogTable;
  sequence_log_entries: SequenceLogEntryTable;
}

export interface SequenceLogTable {
  /** Id of the resource that the log belongs to. */
  id: string;
  last_seq: number;
  /** Place in the source of the output up to which the log has it. */
  source_seq: number;
  /** Bytes of output that the log has, and that it dropped. */
  output_bytes: number;
  dropped_bytes: number;
  /** When the last entry was written; null while entries may follow. */
  closed_at: number | null;
}

export interface SequenceLogEntryTable {
  log_id: string;
  seq: number;
  type: string;
  at: number;
  data: string;
  /** Bytes of output, at least 1; 0 for an entry that is never dropped. */
  bytes: number;
}
