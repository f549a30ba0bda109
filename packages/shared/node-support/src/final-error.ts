/** An error for the client. Code that translates other errors rethrows this one unchanged. */
export class FinalError extends Error {}
