package boundtest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// recorder is a test that remembers what it was told.
type recorder struct {
	testing.TB
	errs []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

var sink []byte

func TestWhatCostsTooMuchFails(t *testing.T) {
	for _, row := range []struct {
		name string
		cost func()
		want string
	}{
		{"little", func() { sink = make([]byte, 1<<10) }, ""},
		{"memory", func() { sink = make([]byte, 8<<20) }, "for an input of 7 bytes"},
		{"time", func() { <-time.After(3 * time.Second) }, "an input of 7 bytes took 3s: more than 2s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{TB: t}
				end := within(r, 2*time.Second, 4<<20, 7)
				row.cost()
				end()
				if row.want == "" {
					assert.Empty(t, r.errs)
					return
				}
				if assert.Len(t, r.errs, 1) {
					assert.Contains(t, r.errs[0], row.want)
				}
			})
		})
	}
}

func TestEveryByteOfAnInputRaisesTheBoundOfItsMemory(t *testing.T) {
	r := &recorder{TB: t}
	end := Within(r, 4096)
	sink = make([]byte, MaxBytes+100*MaxPerByte)
	end()
	assert.Empty(t, r.errs)
	end = Within(r, 0)
	sink = make([]byte, MaxBytes+100*MaxPerByte)
	end()
	assert.Len(t, r.errs, 1)
}
