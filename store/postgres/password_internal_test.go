package postgres

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

func TestAPasswordThatWasNotGivenIsSaidToBeMissing(t *testing.T) {
	t.Setenv("PGPASSWORD", "")
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
	refused := fmt.Errorf("failed to connect: %w", errors.Join(errors.New("tls error"), &pgconn.PgError{Code: "28P01", Message: "password authentication failed"}))
	const bare, with = "postgres://orrery@127.0.0.1/orrery", "postgres://orrery:secret@127.0.0.1/orrery"
	assert.EqualError(t, hintPassword(bare, refused), refused.Error()+": no password was given, and the server asks for one: set PGPASSWORD, or write it into ~/.pgpass")
	assert.ErrorIs(t, hintPassword(bare, refused), refused)
	assert.Equal(t, refused, hintPassword(with, refused), "it is the wrong one")
	other := &pgconn.PgError{Code: "3D000", Message: "database does not exist"}
	assert.Equal(t, error(other), hintPassword(bare, other))

	t.Setenv("PGPASSWORD", "secret")
	assert.Equal(t, refused, hintPassword(bare, refused), "the environment gives one")
}
