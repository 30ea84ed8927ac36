package httpapi_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/stream"
)

// streamed begins a backup of several blocks over a connection, and reads its first bytes.
func streamed(t *testing.T) (a *api, p *pipes, c net.Conn, body *bufio.Reader) {
	t.Helper()
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	value := make([]byte, 300<<10) // which cannot be compressed
	_, _ = rand.Read(value)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		for _, name := range []string{"a", "b", "c"} {
			if err := tx.SetMeta(name, value); err != nil {
				return err
			}
		}
		return nil
	}))
	a = start(t, setup{store: st, stopped: true})
	p = serve(t, a)
	c = p.dial()
	_, err := io.WriteString(c, "GET /v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	body = bufio.NewReaderSize(c, 16)
	first, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK\r\n", first)
	return a, p, c, body
}

// anotherBackup takes a whole backup over a new connection.
func anotherBackup(t *testing.T, p *pipes) {
	t.Helper()
	c := p.dial()
	defer func() { _ = c.Close() }()
	_, err := io.WriteString(c, "GET /v1/backup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	sum, err := stream.Verify(t.Context(), res.Body, nil)
	require.NoError(t, err)
	assert.Equal(t, uint64(3), sum.Entries["meta"])
}

func TestAClientThatTakesNothingOfABackupIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, c, _ := streamed(t)
		<-time.After(59 * time.Second)
		synctest.Wait()
		assert.NotContains(t, a.logs.String(), "request ended early")
		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.Contains(t, a.logs.String(), "the client took less than 16 KiB of the backup in 1m0s")
		assert.Contains(t, a.logs.String(), "request ended early")
		assert.NotContains(t, a.logs.String(), "backup sent")
		anotherBackup(t, p)
		_ = c.Close()
	})
}

// TestAClientThatTakesABackupSlowlyGetsItWhole: 16 KiB in each half of a minute, which lasts for longer
// than any other request may.
func TestAClientThatTakesABackupSlowlyGetsItWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c, body := streamed(t)
		began := time.Now()
		res, err := http.ReadResponse(bufio.NewReaderSize(io.MultiReader(bytes.NewReader([]byte("HTTP/1.1 200 OK\r\n")), slowly{body}), 16<<10), nil)
		require.NoError(t, err)
		_, err = stream.Verify(t.Context(), res.Body, nil)
		require.NoError(t, err)
		assert.Greater(t, time.Since(began), 20*time.Minute)
		_ = c.Close()
	})
}

// slowly gives at most 16 KiB in 30 seconds.
type slowly struct{ from io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	<-time.After(30 * time.Second)
	return io.ReadFull(s.from, b[:min(len(b), 16<<10)])
}

func TestAClientThatGoesAwayEndsItsBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p, c, _ := streamed(t)
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.NotContains(t, a.logs.String(), "backup sent")
		assert.Contains(t, a.logs.String(), "request ended early")
		anotherBackup(t, p)
	})
}
