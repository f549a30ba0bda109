import { hkdfSync, randomBytes } from 'node:crypto';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { openText, sealText } from '../../platform/base/sealed-text.ts';
import type { Database } from '../../platform/db/database.ts';
import { serverSecret } from '../../platform/db/server-secret.ts';
import type { WebhookRecord } from './webhook.ts';

const SECRET_NAME = 'webhook-secrets';
const SECRET_BYTES = 32;

type Secrets = Pick<WebhookRecord, 'id' | 'secret' | 'previousSecret' | 'previousSecretUntil'>;

export interface Message {
  /** Equal for all attempts, so that a receiver can ignore a message that it has already received. */
  readonly id: string;
  readonly body: string;
}

/**
 * Makes the secrets of webhooks and signs messages with them.
 *
 * SECURITY: secrets are stored encrypted. Their key is in another table of the same database, so this protects a copy
 * of the table of webhooks, not a copy of the whole database; "is in no table as it is" in webhooks.test.ts.
 */
export class WebhookSecrets {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  static async open(db: Database): Promise<WebhookSecrets> {
    const secret = await serverSecret(db, SECRET_NAME);
    return new WebhookSecrets(Buffer.from(hkdfSync('sha256', secret, '', 'cloche webhook secrets', 32)));
  }

  make(): string {
    return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
  }

  /** Encrypts a secret for its webhook. */
  seal(secret: string, webhookId: string): string {
    return sealText(secret, this.#key, webhookId);
  }

  open({ id, secret }: Pick<WebhookRecord, 'id' | 'secret'>): string {
    return openText(secret, this.#key, id);
  }

  /** Returns the fields of the Standard Webhooks specification, signed with each secret that is in force. */
  sign(webhook: Secrets, { id, body }: Message, now: number): Record<string, string> {
    const { previousSecret, previousSecretUntil = 0 } = webhook;
    const sealed = [
      webhook.secret,
      ...(previousSecret !== undefined && previousSecretUntil > now ? [previousSecret] : []),
    ];
    const signatures = sealed.map((each) =>
      new StandardWebhook(this.open({ id: webhook.id, secret: each })).sign(id, new Date(now), body),
    );
    return {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now / 1000)),
      'webhook-signature': signatures.join(' '),
    };
  }
}
