package config

import (
	"errors"

	"github.com/orrery-go/orrery/shell/audit"
)

// auditConfig is the log of requests.
type auditConfig struct {
	Enabled  bool    `toml:"enabled"`
	Days     float64 `toml:"days"` // -1: until max_bytes
	MaxBytes int64   `toml:"max_bytes"`
	Reads    bool    `toml:"reads"`
}

func defaultAudit() auditConfig {
	return auditConfig{Enabled: true, Days: audit.DefaultMaxAge.Hours() / 24, MaxBytes: audit.DefaultMaxBytes}
}

func (c *Config) validateAudit() error {
	return errors.Join(
		checkDays("audit.days", c.Audit.Days),
		checkBetween("audit.max_bytes", &c.Audit.MaxBytes, audit.MinBytes, 1<<40),
	)
}

// AuditDir is the folder of the log of requests of a database: beside its file.
func AuditDir(db string) string { return db + ".audit" }
