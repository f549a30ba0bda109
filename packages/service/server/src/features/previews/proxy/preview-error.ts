import { PREVIEW_ERRORS, type PreviewErrorCode } from '@cloche/contract';

/** An error that the preview proxy answers itself. Its message is for a visitor of the page. */
export class PreviewError extends Error {
  override readonly name = 'PreviewError';
  readonly code: PreviewErrorCode;

  constructor(code: PreviewErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get status(): number {
    return PREVIEW_ERRORS[this.code].status;
  }

  /** Whether a retry may soon succeed. */
  get isTemporary(): boolean {
    return this.code === 'preview_port_closed' || this.code === 'preview_unavailable' || this.code === 'preview_busy';
  }
}
