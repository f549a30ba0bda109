/** An error that code between its thrower and the client passes on as it is, whatever else it translates. */
export class FinalError extends Error {}
