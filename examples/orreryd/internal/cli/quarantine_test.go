package cli

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestWhatWasSetAsideIsListed(t *testing.T) {
	db := database(t)
	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Contains(t, cli(t, nil, "", "quarantine", "--db", db).out, "nothing was set aside in "+db)
	st, err = bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	id := uuid.UUID{15: 7}
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		return tx.SetAside(store.Quarantined{Kind: "action", ID: id, At: 1000, Reason: "the checksum is wrong", Raw: []byte("left")}, 0)
	}))
	require.NoError(t, st.Close())

	plain := cli(t, nil, "", "quarantine", "--db", db)
	json := cli(t, nil, "", "quarantine", "--db", db, "--json")

	assert.Zero(t, plain.code)
	assert.Contains(t, plain.out, "action/"+id.String()+"  4 bytes  the checksum is wrong")
	assert.Contains(t, json.out, `"raw": "bGVmdA=="`)
}
