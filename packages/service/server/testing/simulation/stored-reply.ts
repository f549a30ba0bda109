/** A reply that stores what a handler gives it, in place of one that a server sends. */

export interface StoredReply {
  status: number;
  body: string;
}

/** Returns a reply that stores what it is given. */
export function replyTo(answered: StoredReply) {
  const onClose: (() => void)[] = [];
  const reply = {
    raw: {
      closed: false,
      destroyed: false,
      writableFinished: false,
      once: (_event: string, act: () => void) => onClose.push(act),
      off: (_event: string, act: () => void) => onClose.splice(onClose.indexOf(act), 1),
      close() {
        reply.raw.writableFinished = true;
        for (const act of onClose.splice(0)) act();
      },
    },
    header: () => reply,
    type: () => reply,
    code(status: number) {
      answered.status = status;
      return reply;
    },
    send(body: string) {
      answered.body = body;
      return reply;
    },
  };
  return reply;
}
