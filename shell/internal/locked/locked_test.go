package locked_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/internal/locked"
)

func TestABufferKeepsWhatManyWriteAndShowsItMeanwhile(t *testing.T) {
	var b locked.Buffer
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, err := fmt.Fprintln(&b, "line")
				assert.NoError(t, err)
				assert.Empty(t, strings.ReplaceAll(b.String(), "line\n", ""), "only whole lines")
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 800, strings.Count(b.String(), "line\n"))
}
