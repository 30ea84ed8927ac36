package inherit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsListedIsInherited(t *testing.T) {
	t.Setenv("ORRERY_TEST_A", "1=2")
	t.Setenv("ORRERY_TEST_B", "")
	t.Setenv("ORRERY_TESTING", "3")
	assert.Equal(t, []string{"ORRERY_TEST_A=1=2"}, Environ([]string{"ORRERY_TEST_A", "ORRERY_TEST"}))
	assert.ElementsMatch(t, []string{"ORRERY_TEST_A=1=2", "ORRERY_TEST_B="}, Environ([]string{"ORRERY_TEST_*"}))
	assert.Empty(t, Environ(nil))
	assert.NotEmpty(t, Environ([]string{"*"}))
}
