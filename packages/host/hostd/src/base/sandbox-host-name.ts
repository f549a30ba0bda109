/** Host name of every sandbox. */
export const SANDBOX_HOST_NAME = 'sandbox';
