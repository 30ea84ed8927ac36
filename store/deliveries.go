package store

import "github.com/google/uuid"

// WebhookFinder is what a transaction may do beside [ReadTx]: it finds a raw webhook by its
// id. If a store's transactions do not implement it, a webhook that comes again while the
// first one still waits raw, after a restart, replaces that instead of being recognised.
type WebhookFinder interface {
	// HasWebhook reports whether a raw webhook is stored, readable or not.
	HasWebhook(id uuid.UUID) (bool, error)
}
